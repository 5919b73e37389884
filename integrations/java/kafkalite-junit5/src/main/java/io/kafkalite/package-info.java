/** A Kafka broker for tests, and clients of its control API. */
package io.kafkalite;
