import com.github.dockerjava.api.command.InspectContainerResponse;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.images.builder.Transferable;
import org.testcontainers.utility.DockerImageName;

/**
 * A module of Testcontainers: a kafkalite container with topics, options and commands.
 *
 * <p>Containers of the same network reach the broker at its network alias, port 29092. Needs the
 * image: {@code docker build -f docker/Dockerfile -t kafkalite .}
 */
public class KafkaliteContainer extends GenericContainer<KafkaliteContainer> {
    private static final int PORT = 9092;

    /** The port on the host is known after the start of the container; the broker starts with it. */
    private static final String START =
        """
        while [ ! -s /tmp/address ]; do sleep 0.05; done
        export KAFKALITE_ADVERTISE="OUTSIDE://$(cat /tmp/address),INSIDE://$(hostname):29092"
        exec kafkalite-entrypoint
        """;

    private final List<String> topics = new ArrayList<>();

    public KafkaliteContainer() {
        this("kafkalite");
    }

    public KafkaliteContainer(String image) {
        super(DockerImageName.parse(image));
        withExposedPorts(PORT);
        withEnv("KAFKALITE_CONTROL", "127.0.0.1:9097");
        withCommand("sh", "-c", START);
        waitingFor(Wait.forLogMessage(".*kafkalite is ready.*", 1));
    }

    /** Creates a topic at the start of the broker. */
    public KafkaliteContainer withTopic(String name, int partitions) {
        topics.add(name + ":" + partitions);
        return withEnv("KAFKALITE_TOPICS", String.join(",", topics));
    }

    /** Returns the address for clients on the host. */
    public String getBootstrapServers() {
        return getHost() + ":" + getMappedPort(PORT);
    }

    /** Runs a command of kafkalite in the container, such as {@code clock advance 7d}. */
    public String run(String... arguments) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of("kafkalite"));
        command.addAll(List.of(arguments));
        ExecResult result = execInContainer(command.toArray(new String[0]));
        if (result.getExitCode() != 0) {
            throw new IllegalStateException(result.getStderr());
        }
        return result.getStdout();
    }

    @Override
    protected void containerIsStarting(InspectContainerResponse container) {
        copyFileToContainer(Transferable.of(getBootstrapServers()), "/tmp/address");
    }
}
