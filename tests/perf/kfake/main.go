// Command kfake starts franz-go's in-memory Kafka on one port, for comparison in benchmarks.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	port := flag.Int("port", 0, "port of the only broker; 0 picks one")
	flag.Parse()
	if err := serve(*port); err != nil {
		log.Fatal(err)
	}
}

func serve(port int) error {
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(1),
		kfake.Ports(port),
		kfake.AllowAutoTopicCreation(),
		kfake.DefaultNumPartitions(6),
	)
	if err != nil {
		return fmt.Errorf("start kfake: %w", err)
	}
	defer cluster.Close()
	for _, address := range cluster.ListenAddrs() {
		fmt.Println(address)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	<-stop
	return nil
}
