"""
What the SDKs that Stainless generates have in common: the OpenAI SDK and the Anthropic SDK.

Their clients have the same base class, stream classes, raw responses and request options. This
package is not an integration: it patches nothing by itself, and its modules are private.
"""
