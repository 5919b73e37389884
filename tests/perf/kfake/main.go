// Command kfake starts franz-go's in-memory Kafka on one port, for comparison in benchmarks.
package main

import (
	"crypto/tls"
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
	pem := flag.String("tls", "", "file with the key and the certificates of the broker, for TLS")
	flag.Parse()
	if err := serve(*port, *pem); err != nil {
		log.Fatal(err)
	}
}

func serve(port int, pem string) error {
	options := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.Ports(port),
		kfake.AllowAutoTopicCreation(),
		kfake.DefaultNumPartitions(6),
	}
	if pem != "" {
		certificate, err := tls.LoadX509KeyPair(pem, pem)
		if err != nil {
			return fmt.Errorf("load certificate: %w", err)
		}
		config := &tls.Config{Certificates: []tls.Certificate{certificate}}
		options = append(options, kfake.TLS(config))
	}
	cluster, err := kfake.NewCluster(options...)
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
