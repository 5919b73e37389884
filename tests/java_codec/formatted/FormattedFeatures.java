import java.lang.reflect.Field;
import java.lang.reflect.Method;

/**
 * Prints one line per feature of the release on the class path: name, minimum and maximum production
 * level, the level of a newly formatted cluster, the maximum level under development, and the level of
 * a cluster that is formatted with the newest metadata.version under development. Then it prints the
 * levels of metadata.version with new records.
 *
 * The names and types differ between releases, so they are looked up with reflection.
 */
public final class FormattedFeatures {
    private static final String COMMON = "org.apache.kafka.server.common.";

    private FormattedFeatures() {
    }

    public static void main(String[] arguments) throws Exception {
        Class<?> versions = Class.forName(COMMON + "MetadataVersion");
        Object newest = newest(versions);
        Object unstable = newestUnstable(versions);
        int least = level(oneOf(versions, "MINIMUM_VERSION", "MINIMUM_KRAFT_VERSION"), "featureLevel");
        int released = level(newest, "featureLevel");
        int highest = level(unstable, "featureLevel");
        print("metadata.version", least, released, released, highest, highest);
        printChanges(versions);
        Class<?> features = features();
        if (features == null) {
            return;
        }
        for (Object feature : (Iterable<?>) features.getField("PRODUCTION_FEATURES").get(null)) {
            String name = (String) feature.getClass().getMethod("featureName").invoke(feature);
            print(name, level(feature, "minimumProduction"), level(feature, "latestProduction"),
                formatted(feature, newest), level(feature, "latestTesting"), formatted(feature, unstable));
        }
    }

    private static void print(String name, int... levels) {
        StringBuilder line = new StringBuilder(name);
        for (int level : levels) {
            line.append(' ').append(level);
        }
        System.out.println(line);
    }

    private static void printChanges(Class<?> versions) throws Exception {
        Field field = versions.getDeclaredField("didMetadataChange");
        field.setAccessible(true);
        StringBuilder line = new StringBuilder("changes");
        for (Object version : versions.getEnumConstants()) {
            if (level(version, "featureLevel") > 0 && field.getBoolean(version)) {
                line.append(' ').append(level(version, "featureLevel"));
            }
        }
        System.out.println(line);
    }

    private static int level(Object subject, String method) throws Exception {
        return ((Number) subject.getClass().getMethod(method).invoke(subject)).intValue();
    }

    private static int formatted(Object feature, Object newest) throws Exception {
        for (Method method : feature.getClass().getMethods()) {
            if (method.getName().equals("defaultLevel") || method.getName().equals("defaultValue")) {
                return ((Number) method.invoke(feature, newest)).intValue();
            }
        }
        throw new NoSuchMethodException("the level a feature is formatted with");
    }

    private static Object newest(Class<?> versions) throws Exception {
        try {
            return versions.getField("LATEST_PRODUCTION").get(null);
        } catch (NoSuchFieldException none) {
            return versions.getMethod("latest").invoke(null);
        }
    }

    private static Object newestUnstable(Class<?> versions) throws Exception {
        try {
            return versions.getMethod("latestTesting").invoke(null);
        } catch (NoSuchMethodException none) {
            return newest(versions);
        }
    }

    private static Object oneOf(Class<?> owner, String... names) throws Exception {
        for (String name : names) {
            try {
                return owner.getField(name).get(null);
            } catch (NoSuchFieldException none) {
                continue;
            }
        }
        throw new NoSuchFieldException(String.join(" or ", names));
    }

    /** The enum of features other than metadata.version; null in old releases without one. */
    private static Class<?> features() {
        for (String name : new String[] {"Feature", "Features"}) {
            try {
                Class<?> found = Class.forName(COMMON + name);
                if (found.isEnum()) {
                    return found;
                }
            } catch (ClassNotFoundException none) {
                continue;
            }
        }
        return null;
    }
}
