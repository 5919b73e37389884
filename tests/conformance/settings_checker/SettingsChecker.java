import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import kafka.server.KafkaConfig;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Checks for each set of broker settings whether Kafka would start with it. A set is lines of
 * KEY=VALUE and ends with an empty line. The result is one line: the error, or empty if the set is
 * valid.
 */
public final class SettingsChecker {
    private SettingsChecker() {
    }

    public static void main(String[] arguments) throws IOException {
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Properties settings = new Properties();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.isEmpty()) {
                System.out.println(judge(settings));
                settings = new Properties();
            } else {
                int equals = line.indexOf('=');
                settings.setProperty(line.substring(0, equals), line.substring(equals + 1));
            }
        }
    }

    private static String judge(Properties settings) {
        try {
            KafkaConfig config = KafkaConfig.fromProps(settings, false);
            LogConfig.validateBrokerLogConfigValues(
                config.extractLogConfigMap(),
                config.remoteLogManagerConfig().isRemoteStorageSystemEnabled());
            return "";
        } catch (RuntimeException refusal) {
            return String.valueOf(refusal.getMessage()).replace('\n', ' ');
        }
    }
}
