import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

/** Prints Kafka's error codes: code, name and whether it is retriable, separated by tabs. */
public final class ErrorCodes {
    private ErrorCodes() {
    }

    public static void main(String[] args) {
        for (Errors error : Errors.values()) {
            boolean retriable = error.exception() instanceof RetriableException;
            System.out.println(error.code() + "\t" + error.name() + "\t" + retriable);
        }
    }
}
