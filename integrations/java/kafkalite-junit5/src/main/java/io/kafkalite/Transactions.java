package io.kafkalite;

import java.util.List;

/** The transactional ids with their current or last transactions. */
public final class Transactions {
    private final ControlClient control;

    Transactions(ControlClient control) {
        this.control = control;
    }

    /** A transactional id, and its producer; the age is null without an open transaction. */
    public record TransactionAnswer(
            String transactionalId,
            String state,
            long producerId,
            int producerEpoch,
            int timeoutMs,
            Long ageMs,
            String clientId) {}

    /** All transactional ids. */
    record TransactionList(List<TransactionAnswer> transactions) {}

    /** Returns all transactional ids. */
    public List<TransactionAnswer> list() {
        return control.send(Route.TRANSACTIONS, "", TransactionList.class).transactions();
    }

    /** Returns a transactional id; IllegalArgumentException for an unknown one. */
    public TransactionAnswer get(String transactionalId) {
        return list().stream()
                .filter(each -> each.transactionalId().equals(transactionalId))
                .findFirst()
                .orElseThrow(
                        () ->
                                new IllegalArgumentException(
                                        "unknown transactional id " + transactionalId));
    }
}
