package io.kafkalite;

import java.time.Duration;
import java.time.Instant;
import java.util.Map;

/** The clock of the broker. */
public final class Clock {
    private final ControlClient control;

    Clock(ControlClient control) {
        this.control = control;
    }

    /** The time, and how fast it runs: 1 in mode `real`, 0 in mode `manual`. */
    public record ClockState(long nowMs, String mode, double rate) {}

    /** Returns the time and the mode. */
    public ClockState state() {
        return control.send(Route.CLOCK, "", ClockState.class);
    }

    /** Returns the broker's time. */
    public Instant now() {
        return Instant.ofEpochMilli(state().nowMs());
    }

    /** Advances the clock. All timers that are due have run when this returns. */
    public void advance(Duration duration) {
        change("advance_ms", duration.toMillis());
    }

    /** Advances the clock to a time that is not in the past. */
    public void advanceTo(Instant time) {
        change("now_ms", time.toEpochMilli());
    }

    /** Stops the clock until it is advanced. */
    public void pause() {
        change("mode", "manual");
    }

    /** Lets the clock run as fast as real time. */
    public void resume() {
        change("mode", "real");
    }

    private void change(String field, Object value) {
        control.send(Route.CHANGE_CLOCK, "", Map.of(), Map.of(field, value), ClockState.class);
    }
}
