"""Tools for captures: replay, comparison, the recording proxy, Arrow tables, and audits."""
