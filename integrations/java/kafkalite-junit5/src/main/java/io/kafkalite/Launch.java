package io.kafkalite;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;

/** The command that starts a broker; a container has fixed ports and a token. */
record Launch(List<String> command, String controlUrl, String token) {

    /** Returns the command of a process of this machine. */
    static Launch process(List<String> program, List<String> options) {
        List<String> command = new ArrayList<>(program);
        command.addAll(List.of("serve", "--listen", "localhost:0", "--control", "127.0.0.1:0"));
        command.addAll(options);
        return new Launch(command, null, null);
    }

    /** Returns the command of a container, whose ports are the same inside and outside. */
    static Launch container(String docker, String image, List<String> options) {
        int option = options.indexOf("--brokers");
        int brokers = option < 0 ? 1 : Integer.parseInt(options.get(option + 1));
        int first = freePorts(brokers + 1);
        int control = first + brokers;
        String token = UUID.randomUUID().toString();
        List<String> command = new ArrayList<>(List.of(docker, "run", "--rm"));
        for (int port = first; port <= control; port++) {
            command.addAll(List.of("--publish", "127.0.0.1:" + port + ":" + port));
        }
        command.addAll(List.of("--entrypoint", "kafkalite", image, "serve"));
        command.addAll(List.of("--listen", "0.0.0.0:" + first));
        command.addAll(List.of("--advertise", "localhost:" + first));
        command.addAll(List.of("--control", "0.0.0.0:" + control, "--control-token", token));
        command.addAll(options);
        return new Launch(command, "http://127.0.0.1:" + control, token);
    }

    private static int freePorts(int count) {
        for (int attempt = 0; attempt < 100; attempt++) {
            List<ServerSocket> sockets = new ArrayList<>();
            try {
                int first = 0;
                for (int index = 0; index < count; index++) {
                    int port = index == 0 ? 0 : first + index;
                    sockets.add(new ServerSocket(port, 1, InetAddress.getLoopbackAddress()));
                    first = sockets.get(0).getLocalPort();
                }
                return first;
            } catch (IOException | IllegalArgumentException taken) {
                continue;
            } finally {
                sockets.forEach(Launch::close);
            }
        }
        throw new IllegalStateException("found no " + count + " free ports in a row");
    }

    private static void close(ServerSocket socket) {
        try {
            socket.close();
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }
}
