"""Groups in captures: their generations, a time line, and what other rules would have changed."""
