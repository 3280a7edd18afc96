"""
Make a model that vLLM can load, a configuration and a tokenizer: ``makes_a_model.py FOLDER``.

It has no weights: vLLM makes them up. Its shape gives it times that can be measured on one
processor, some 15 ms a token. A program of its own, because what it imports is large.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final

VOCABULARY: Final = 1000
TEMPLATE: Final = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
)
WORDS: Final = Path(__file__).parents[2] / "docs"
"""What the tokenizer learns its words from: any English text."""


def main(folder: str) -> None:
    tokenizers: Any = import_module("tokenizers")
    transformers: Any = import_module("transformers")
    words = tokenizers.Tokenizer(tokenizers.models.BPE())
    words.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = tokenizers.decoders.ByteLevel()
    words.train(
        [str(path) for path in sorted(WORDS.rglob("*.md"))],
        tokenizers.trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            special_tokens=["<s>", "</s>"],
            initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, bos_token="<s>", eos_token="</s>", chat_template=TEMPLATE
    ).save_pretrained(folder)
    transformers.LlamaConfig(
        architectures=["LlamaForCausalLM"],
        vocab_size=VOCABULARY,
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=8,
        num_attention_heads=16,
        num_key_value_heads=16,
        max_position_embeddings=2048,
        bos_token_id=0,
        eos_token_id=1,
    ).save_pretrained(folder)


main(*sys.argv[1:])
