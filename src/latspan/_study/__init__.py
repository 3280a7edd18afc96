"""
Study half: reads recordings and draws conclusions from them.

The packages inside depend on recordings and on nothing that runs in an application.
"""
