"""Distillation: the divergence of softened student scores from softened teacher scores, averaged over the batch."""

import torch
import torch.nn as nn
import torch.nn.functional as F

rows = 1536
classes = 1000

VARIANTS = {
    "ragged": {"rows": 331, "classes": 1103},
    "small": {"rows": 96, "classes": 128},
}


class Model(nn.Module):
    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
        log_student = F.log_softmax(student / self.temperature, dim=-1)
        log_teacher = F.log_softmax(teacher / self.temperature, dim=-1)
        divergence = F.kl_div(log_student, log_teacher, reduction="none", log_target=True).sum(dim=-1)
        return divergence.mean() * self.temperature**2


def get_inputs():
    teacher = 3.0 * torch.randn(rows, classes)
    return [0.7 * teacher + torch.randn(rows, classes), teacher]


def get_init_inputs():
    return [2.0]
