"""TRL's GRPO trainer improves a tiny policy on rewards of the real judge: what is right becomes likelier against what is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

import torch
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

from warpsmith.config import Config
from warpsmith.environment import make_scorer
from warpsmith.environment.trl import make_reward

TASK = '''"""Negation of a few thousand values."""

import torch

ROWS = 16
DIM = 256
VARIANTS = {"ragged": {"ROWS": 3, "DIM": 77}}


class Model(torch.nn.Module):
    def forward(self, x):
        return -x


def get_inputs():
    return [torch.randn(ROWS, DIM)]


def get_init_inputs():
    return []
'''
UNIT = """// warpsmith-unit: 1
#include "task.h"
static void unit(const in0_t* x, out0_t* y, void* workspace, void* stream) {
  for (int64_t i = 0; i < in0_numel; i++) y[i] = %s;
}
"""
RIGHT, WRONG, NOT_BUILT = ANSWERS = [UNIT % value for value in ("-x[i]", "x[i]", "-x[")]
PROMPT = "Negate."
SEED, IMITATION_STEPS, GRPO_STEPS, COMPLETIONS = 20260, 120, 2, 16


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Make a byte-level one whose merges come from the answers, so that these are short."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<pad>", "<eos>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )  # fmt: skip
    tokenizer.train_from_iterator([*ANSWERS, PROMPT], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>")


def make_policy(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Make a model of a few hundred thousand random weights."""
    torch.manual_seed(SEED)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=96, intermediate_size=192, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=256, pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id, bos_token_id=None,
    )  # fmt: skip
    policy = LlamaForCausalLM(config)
    assert 100_000 < policy.num_parameters() < 500_000
    return policy


def measure_log_probability(
    policy: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, answer: str
) -> torch.Tensor:
    """Return the logarithm of the probability that the policy answers the prompt by exactly this."""
    prompt, ids = tokenizer(PROMPT)["input_ids"], tokenizer(answer)["input_ids"]
    row = torch.tensor([[*prompt, *ids, tokenizer.eos_token_id]])
    logits = policy(input_ids=row, attention_mask=torch.ones_like(row)).logits[0, len(prompt) - 1 : -1]
    return logits.log_softmax(-1).gather(1, row[0, len(prompt) :, None]).sum()


def imitate(policy: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    """Teach the policy all answers alike, by supervised steps: it then writes each in about a third of its answers."""
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
    for _ in range(IMITATION_STEPS):
        optimizer.zero_grad()
        loss = -sum(measure_log_probability(policy, tokenizer, a) for a in ANSWERS) / len(ANSWERS)
        loss.backward()
        optimizer.step()


def measure_answers(policy: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> list[float]:
    policy.eval()
    with torch.no_grad():
        return [float(measure_log_probability(policy, tokenizer, a)) for a in ANSWERS]


@pytest.mark.slow
def test_two_grpo_steps_favour_the_right_kernel_over_the_others(tmp_path: Path) -> None:
    (tmp_path / "negation.py").write_text(TASK)
    tokenizer = make_tokenizer()
    policy = make_policy(tokenizer)
    imitate(policy, tokenizer)
    before = measure_answers(policy, tokenizer)
    assert all(-3.0 < logarithm < -0.5 for logarithm in before)
    weights = {name: value.detach().clone() for name, value in policy.named_parameters()}
    scored: list[tuple[str, float]] = []

    with make_scorer(config=Config(archive=tmp_path / "archive.db", cache=tmp_path / "cache")) as scorer:
        reward = make_reward(scorer)

        def watched_reward(completions: list[str], **columns: Any) -> list[float]:
            rewards = reward(completions, **columns)
            scored.extend(zip(completions, rewards, strict=True))
            return rewards

        trainer = GRPOTrainer(
            model=policy,
            reward_funcs=watched_reward,
            processing_class=tokenizer,
            train_dataset=Dataset.from_list([{"prompt": PROMPT, "task": str(tmp_path / "negation.py")}] * 4),
            args=GRPOConfig(
                output_dir=str(tmp_path / "run"), max_steps=GRPO_STEPS, per_device_train_batch_size=COMPLETIONS, num_generations=COMPLETIONS,
                max_completion_length=120, learning_rate=1e-3, lr_scheduler_type="constant", seed=SEED, use_cpu=True, bf16=False,
                activation_checkpointing=False, save_strategy="no", report_to="none", disable_tqdm=True, logging_steps=1,
            ),
        )  # fmt: skip
        trainer.train()
    after = measure_answers(policy, tokenizer)

    assert trainer.state.global_step == GRPO_STEPS
    assert len(scored) == GRPO_STEPS * COMPLETIONS
    earned = {answer: [r for text, r in scored if text == answer] for answer in ANSWERS}
    assert min(earned[RIGHT]) > max(earned[WRONG]) > max(earned[NOT_BUILT])
    assert max(earned[WRONG]) < -0.5
    assert any(not torch.equal(weights[name], value) for name, value in policy.named_parameters())
    gains = [later - earlier for earlier, later in zip(before, after, strict=True)]
    assert gains[0] > max(gains[1:]), gains
