"""Verification of real and of fake levers on llama.cpp, with the commands of the guides."""
