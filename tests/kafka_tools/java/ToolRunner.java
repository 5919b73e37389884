import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs Kafka's command-line tools in one JVM, so that each needs a fraction of a second.
 *
 * <p>Commands are lines of JSON on the standard input, and each has one line of JSON as its answer.
 * {@code run} waits for the end of a main method, {@code start} does not, {@code output} returns what
 * a started tool has printed so far, and {@code stop} runs its shutdown hooks as SIGTERM does. A
 * thread inherits the streams of the tool that started it.
 */
public final class ToolRunner {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final InheritableThreadLocal<Tool> CURRENT = new InheritableThreadLocal<>();
    private static final int TIMED_OUT = -1;
    private static final Map<Thread, Thread> HOOKS_OF_JAVA = hooksOfJava();

    private ToolRunner() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader commands =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.setOut(new OpenStream(new CurrentOutput(false)));
        PrintStream problems = System.err;
        System.setErr(new OpenStream(new CurrentOutput(true)));
        System.setIn(new CurrentInput());
        Exit.setExitProcedure((status, message) -> ToolRunner.exit(status));
        Exit.setHaltProcedure((status, message) -> ToolRunner.exit(status));
        Exit.setShutdownHookAdder((name, hook) -> CURRENT.get().addHook(hook));
        Map<String, Tool> started = new HashMap<>();
        try {
            for (String line = commands.readLine(); line != null; line = commands.readLine()) {
                JsonNode command = JSON.readTree(line);
                answers.println(JSON.writeValueAsString(answer(command, started)));
            }
        } catch (Exception | LinkageError failure) {
            failure.printStackTrace(problems);
        }
        Runtime.getRuntime().halt(0); // whatever threads the tools have left
    }

    private static ObjectNode answer(JsonNode command, Map<String, Tool> started) throws Exception {
        String name = command.get("name").asText();
        long timeoutMs = command.get("timeout_ms").asLong();
        switch (command.get("command").asText()) {
            case "run":
                Tool tool = new Tool(command);
                tool.start();
                tool.join(timeoutMs);
                return tool.end(timeoutMs);
            case "start":
                started.put(name, new Tool(command));
                started.get(name).start();
                return JSON.createObjectNode();
            case "output":
                return started.get(name).output();
            case "stop":
                return started.remove(name).end(timeoutMs);
            default:
                throw new IllegalArgumentException(command.toString());
        }
    }

    /** Returns the shutdown hooks of the JVM, to run those of one tool. */
    @SuppressWarnings("unchecked")
    private static Map<Thread, Thread> hooksOfJava() {
        try {
            Field hooks = Class.forName("java.lang.ApplicationShutdownHooks").getDeclaredField("hooks");
            hooks.setAccessible(true);
            return (Map<Thread, Thread>) hooks.get(null);
        } catch (ReflectiveOperationException failure) {
            throw new IllegalStateException(failure);
        }
    }

    private static void exit(int status) {
        CURRENT.get().exit(status);
        throw new Exited();
    }

    /** Leaves the code of a tool that exits. */
    private static final class Exited extends Error {
        private static final long serialVersionUID = 1L;

        Exited() {
            super("exit", null, false, false);
        }
    }

    /** A run of a main method. What it prints after its exit is lost. */
    private static final class Tool {
        final InputStream input;
        private final ByteArrayOutputStream stdout = new ByteArrayOutputStream();
        private final ByteArrayOutputStream stderr = new ByteArrayOutputStream();
        private final List<Runnable> hooks = new ArrayList<>();
        private final ThreadGroup group = new ThreadGroup("tool");
        private final Thread thread;
        private final Class<?> main;
        private final String[] arguments;
        private Integer status;

        Tool(JsonNode command) throws ClassNotFoundException {
            main = Class.forName(command.get("main").asText());
            arguments = JSON.convertValue(command.get("arguments"), String[].class);
            input =
                    new ByteArrayInputStream(
                            command.get("input").asText().getBytes(StandardCharsets.UTF_8));
            thread = new Thread(group, this::run, "main");
            thread.setDaemon(true);
        }

        void start() {
            thread.start();
        }

        void join(long timeoutMs) throws InterruptedException {
            thread.join(timeoutMs);
        }

        private void run() {
            CURRENT.set(this);
            try {
                main.getMethod("main", String[].class).invoke(null, (Object) arguments);
            } catch (InvocationTargetException failure) {
                if (!(failure.getCause() instanceof Exited)) {
                    System.err.println("Exception in thread \"main\" " + failure.getCause());
                    exit(1);
                }
            } catch (ReflectiveOperationException failure) {
                throw new IllegalStateException(failure);
            }
        }

        synchronized void exit(int value) {
            if (status == null) {
                status = value;
            }
        }

        synchronized void addHook(Runnable hook) {
            hooks.add(hook);
        }

        /** Runs the shutdown hooks, waits for the main method, and returns all results. */
        ObjectNode end(long timeoutMs) throws InterruptedException {
            boolean isRunning = thread.isAlive();
            Thread stopping = new Thread(this::runHooks, "shutdown");
            stopping.setDaemon(true);
            stopping.start();
            stopping.join(timeoutMs);
            join(timeoutMs);
            ObjectNode result = output();
            synchronized (this) {
                int normal = isRunning ? TIMED_OUT : 0;
                result.put("status", status == null ? normal : status);
            }
            return result;
        }

        private void runHooks() {
            CURRENT.set(this);
            List<Runnable> all;
            synchronized (this) {
                all = new ArrayList<>(hooks);
            }
            for (Thread hook : List.copyOf(HOOKS_OF_JAVA.keySet())) {
                if (hook.getThreadGroup() == group) {
                    HOOKS_OF_JAVA.remove(hook);
                    all.add(hook);
                }
            }
            for (Runnable hook : all) {
                try {
                    hook.run();
                } catch (Exited exited) {
                    // A hook that exits ends only itself.
                }
            }
        }

        synchronized void write(boolean isError, byte[] bytes, int offset, int length) {
            if (status == null || Thread.currentThread() != thread) {
                (isError ? stderr : stdout).write(bytes, offset, length);
            }
        }

        synchronized ObjectNode output() {
            ObjectNode result = JSON.createObjectNode();
            result.put("stdout", stdout.toString(StandardCharsets.UTF_8));
            result.put("stderr", stderr.toString(StandardCharsets.UTF_8));
            return result;
        }
    }

    /** The standard output or error of the tool to which the thread belongs. */
    private static final class CurrentOutput extends OutputStream {
        private final boolean isError;

        CurrentOutput(boolean isError) {
            this.isError = isError;
        }

        @Override
        public void write(int single) {
            write(new byte[] {(byte) single}, 0, 1);
        }

        @Override
        public void write(byte[] bytes, int offset, int length) {
            Tool tool = CURRENT.get();
            if (tool != null) {
                tool.write(isError, bytes, offset, length);
            }
        }
    }

    /** A stream that stays open for the next tool when a tool closes it. */
    private static final class OpenStream extends PrintStream {
        OpenStream(OutputStream output) {
            super(output, true, StandardCharsets.UTF_8);
        }

        @Override
        public void close() {
            flush();
        }
    }

    /** The standard input of the tool to which the thread belongs. */
    private static final class CurrentInput extends InputStream {
        @Override
        public int read() throws java.io.IOException {
            return CURRENT.get().input.read();
        }

        @Override
        public int read(byte[] bytes, int offset, int length) throws java.io.IOException {
            return CURRENT.get().input.read(bytes, offset, length);
        }

        @Override
        public int available() throws java.io.IOException {
            return CURRENT.get().input.available();
        }
    }
}
