package io.kafkalite.junit5;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * Gives each test of a class a fresh broker, or a test method one with its own settings.
 *
 * <p>Parameters of test methods and fields of the class can have the types {@code KafkaliteBroker},
 * {@code Clock}, {@code Faults}, {@code Requests}, {@code Groups}, {@code Topics}, {@code
 * Transactions}, {@code Nodes} and {@code Explain}. A {@code String} with {@link BootstrapServers}
 * is the address of the broker. If a test fails, the extension prints what the broker saw.
 */
@Documented
@Inherited
@Retention(RetentionPolicy.RUNTIME)
@Target({ElementType.TYPE, ElementType.METHOD})
@ExtendWith(KafkaliteExtension.class)
public @interface Kafkalite {
    /** Number of nodes. */
    int brokers() default 1;

    /** Topics with their partitions, such as {@code orders:3}. */
    String[] topics() default {};

    /** Broker configurations, such as {@code offsets.retention.minutes=60}. */
    String[] config() default {};

    /** Release of Kafka to emulate, such as 3.9, or a service. */
    String asVersion() default "";

    /** {@code real}, {@code manual} or {@code manual@2026-03-01}. */
    String clock() default "real";

    /** Further options of {@code kafkalite serve}. */
    String[] options() default {};

    /** Image of the broker, in place of a command. */
    String image() default "";

    /** Command of the broker, in place of {@code kafkalite}. */
    String[] command() default {};

    /** One broker for all tests of the class; they see the data of the tests before. */
    boolean perClass() default false;
}
