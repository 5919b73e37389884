"""The console over files: captures, and the data directory of a broker, without a broker."""
