package io.kafkalite;

/** A request to the control API that the broker has refused. */
public class ControlException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final int status;

    ControlException(int status, String message) {
        super(message);
        this.status = status;
    }

    /** Returns the HTTP status, 0 without a response. */
    public int status() {
        return status;
    }
}
