"""Every configuration key once: type, default, scope, validator; and typed views on the values."""
