"""The Mistral SDK."""
