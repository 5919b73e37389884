"""The pages of the console, one module for each section of its navigation."""
