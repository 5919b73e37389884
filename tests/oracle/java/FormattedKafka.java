import java.util.Arrays;

/** Formats the storage of a broker and starts it, in one JVM instead of two. */
final class FormattedKafka {
    private FormattedKafka() {
    }

    /** Arguments: the properties file, and the arguments of StorageTool. */
    public static void main(String[] arguments) {
        String[] format = Arrays.copyOfRange(arguments, 1, arguments.length);
        int status = kafka.tools.StorageTool.execute(format, System.out);
        if (status != 0) {
            System.exit(status);
        }
        kafka.Kafka.main(new String[] {arguments[0]});
    }
}
