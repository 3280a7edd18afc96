"""vLLM's server with a small random model that is created locally: nothing is downloaded."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from support.daemons import running
from support.otlp import free_port

MODEL: Final = "noise"
"""Name of the model."""

# Loading its libraries takes half a minute on a small machine, and more on a busy one.
_START_S: Final = 300.0
_REQUEST_S: Final = 10.0
_MAKES_A_MODEL: Final = Path(__file__).parents[1] / "vllm" / "makes_a_model.py"


@dataclass(frozen=True, slots=True)
class Vllm:
    """
    A running server.

    Args:
        url: URL of the server.
    """

    url: str

    @property
    def base_url(self) -> str:
        """``base_url`` for an OpenAI client."""
        return f"{self.url}/v1"

    def sums(self) -> dict[str, float]:
        """
        Return the sum and count of each histogram, and all counters and gauges.

        Series with the same name are added. Names have no prefix ``vllm:``.
        """
        sums: dict[str, float] = {}
        for line in _get(f"{self.url}/metrics").splitlines():
            if line.startswith("vllm:"):
                series, value = line.rsplit(" ", 1)
                name = series.partition("{")[0].removeprefix("vllm:")
                sums[name] = sums.get(name, 0.0) + float(value)
        return sums


def made_model(folder: Path) -> Path:
    """Create a model that vLLM can load, and return its folder."""
    done = subprocess.run(
        [sys.executable, _MAKES_A_MODEL, folder], capture_output=True, text=True, timeout=_START_S
    )
    assert done.returncode == 0, done.stderr
    return folder


@contextmanager
def vllm_serving(model: Path, folder: Path, *, sequences: int, traces_url: str) -> Generator[Vllm]:
    """
    Run vLLM inside the block.

    Args:
        model: Folder that :func:`made_model` returned.
        folder: Folder for its log.
        sequences: Maximum number of concurrent requests; the others queue.
        traces_url: OTLP receiver of its own spans, without a path.
    """
    port = free_port()
    url = f"http://127.0.0.1:{port}"

    def healthy() -> bool:
        try:
            _get(f"{url}/health")
        except OSError:
            return False
        return True

    # The command `vllm` needs a distribution named `vllm`, which this environment does not have.
    command = [
        sys.executable,
        "-m",
        "vllm.entrypoints.openai.api_server",
        f"--model={model}",
        f"--served-model-name={MODEL}",
        "--load-format=dummy",
        "--host=127.0.0.1",
        f"--port={port}",
        "--max-model-len=2048",
        f"--max-num-seqs={sequences}",
        "--enforce-eager",
        "--dtype=bfloat16",
        f"--otlp-traces-endpoint={traces_url}/v1/traces",
        "--enable-per-request-metrics",
        "--enable-prompt-tokens-details",
        # With prefix caching, a second prompt with the same words needs no prefill.
        "--no-enable-prefix-caching",
    ]
    variables = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        # Threads that spin at barriers slow everything down on shared processors.
        "OMP_NUM_THREADS": "1",
        "OTEL_SERVICE_NAME": "vllm",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
        # Export spans quickly, so that a test does not wait for them.
        "OTEL_BSP_SCHEDULE_DELAY": "100",
    }
    with running(
        command,
        log=folder / "vllm.log",
        ready=healthy,
        variables=variables,
        start_s=_START_S,
    ):
        yield Vllm(url)


def _get(url: str) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=_REQUEST_S) as response:
        return response.read().decode()
