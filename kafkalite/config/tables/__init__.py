"""Every configuration key of Kafka 4.4, as text: `name type default validator importance [mode]`.

The indented lines under a row are the documentation of the key. `required` means that a key has no
default. `null` means that its default is null. Without a mode, a value changes only with a restart.
The module `kafkalite` has keys that Kafka does not have.
"""
