"""Share groups' data plane (KIP-932): who has which records, how often, and what lasts of it."""
