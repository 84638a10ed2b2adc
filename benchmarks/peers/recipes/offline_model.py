"""The model of the package wordllama, in place of the one that SemHash downloads by itself."""

import shutil
import tempfile
from pathlib import Path

import wordllama

# The package looks for its tokenizer under another name than it has.
_CACHE = Path(tempfile.mkdtemp())
shutil.copytree(Path(wordllama.__file__).parent / "tokenizers", _CACHE / "tokenizers")
_WORDS = wordllama.WordLlama.load(cache_dir=_CACHE, disable_download=True)


class Encoder:
    """Embeds texts, as SemHash calls its models."""

    def encode(self, sentences: list[str], **_: object) -> object:
        """Return an embedding of each text."""
        return _WORDS.embed([*sentences])


MODEL = Encoder()
