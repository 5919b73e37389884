// Starts an image with the Kafka module of Testcontainers: `start-module IMAGE`. It prints the
// address of the broker, and stops the container at the end of the input.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"

	"github.com/testcontainers/testcontainers-go/modules/kafka"
)

func main() {
	ctx := context.Background()
	container, err := kafka.Run(ctx, os.Args[1])
	if err == nil {
		err = serve(ctx, container)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, container *kafka.KafkaContainer) error {
	servers, err := container.Brokers(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("servers=%s\n", servers[0])
	bufio.NewReader(os.Stdin).ReadString('\n')
	return container.Terminate(ctx)
}
