"""Every configuration key of Kafka 4.3, as text: `name type default rule importance [mode]`.

The indented lines under a row say what the key is for. `required` marks a key without a default,
`null` one whose default is nothing; a mode left out means that only a restart changes it.
`kafkalite_keys` holds what Kafka does not have.
"""
