import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/**
 * Copies a file of a broker, for tools that need a file that nobody writes.
 *
 * <p>Arguments: the file, and the copy, whose directories are created.
 */
public final class CopyFile {
    private CopyFile() {}

    public static void main(String[] arguments) throws IOException {
        Path copy = Path.of(arguments[1]);
        Files.createDirectories(copy.getParent());
        Files.copy(Path.of(arguments[0]), copy, StandardCopyOption.REPLACE_EXISTING);
    }
}
