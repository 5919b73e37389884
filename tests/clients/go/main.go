// A worker of franz-go; drivers/worker.py describes its orders and reports. See driver.go too.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	pollTime           = 100 * time.Millisecond
	sessionTimeout     = 1500 * time.Millisecond
	heartbeatInterval  = 300 * time.Millisecond
	transactionTimeout = time.Minute
)

type task struct {
	Bootstrap       string
	TransactionalID string `json:"transactional_id"`
	Group           string
	Source          string
	Sink            string
	Batch           int
}

type worker struct {
	task    task
	session *kgo.GroupTransactSession
	isOver  atomic.Bool
	isHold  atomic.Bool
	isAbort atomic.Bool
	proceed chan struct{}
}

func say(format string, values ...any) {
	fmt.Printf(format+"\n", values...)
}

// Start a new session; that aborts an open transaction of the previous one.
func (w *worker) open() error {
	given := w.task
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(given.Bootstrap),
		kgo.TransactionalID(given.TransactionalID),
		kgo.TransactionTimeout(transactionTimeout),
		kgo.DefaultProduceTopic(given.Sink),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumerGroup(given.Group),
		kgo.ConsumeTopics(given.Source),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.SessionTimeout(sessionTimeout),
		kgo.HeartbeatInterval(heartbeatInterval),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn, nil)),
	)
	if err != nil {
		return err
	}
	w.session = session
	// Request the producer id now; otherwise the first write would.
	_, _, err = session.Client().ProducerID(context.Background())
	return err
}

func (w *worker) work() error {
	for !w.isOver.Load() {
		if records := w.poll(); len(records) > 0 {
			if err := w.transact(records); err != nil {
				return err
			}
		}
	}
	return nil
}

// Return the next records; continue while a broker is down.
func (w *worker) poll() []*kgo.Record {
	ctx, cancel := context.WithTimeout(context.Background(), pollTime)
	defer cancel()
	fetches := w.session.PollRecords(ctx, w.task.Batch)
	for _, failed := range fetches.Errors() {
		if !errors.Is(failed.Err, context.DeadlineExceeded) {
			fmt.Fprintln(os.Stderr, failed.Err)
		}
	}
	return fetches.Records()
}

func (w *worker) transact(records []*kgo.Record) error {
	if err := w.session.Begin(); err != nil {
		return err
	}
	promise := kgo.AbortingFirstErrPromise(w.session.Client())
	for _, record := range records {
		made := &kgo.Record{
			Partition: record.Partition,
			Key:       record.Key,
			Value:     append(append([]byte{}, record.Value...), '!'),
		}
		w.session.Produce(context.Background(), made, promise.Promise())
	}
	err := promise.Err()
	if isFenced(err) {
		return err
	}
	isAbort := w.obeyInside() || err != nil
	isCommitted, err := w.session.End(context.Background(), kgo.TransactionEndTry(!isAbort))
	if err != nil {
		return err
	}
	if isCommitted {
		say("committed %d", len(records))
	} else {
		say("aborted")
	}
	return nil
}

func (w *worker) obeyInside() bool {
	if w.isHold.Swap(false) {
		say("held")
		<-w.proceed
	}
	return w.isAbort.Swap(false)
}

func (w *worker) listen() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		switch lines.Text() {
		case "hold":
			w.isHold.Store(true)
		case "abort":
			w.isAbort.Store(true)
		case "go":
			w.proceed <- struct{}{}
		case "close":
			w.isOver.Store(true)
		}
	}
	w.isOver.Store(true)
	close(w.proceed)
}

func isFenced(err error) bool {
	return errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch)
}

func run() error {
	w := &worker{proceed: make(chan struct{}, 1)}
	if err := json.Unmarshal([]byte(os.Args[1]), &w.task); err != nil {
		return err
	}
	var begin sync.Once
	for {
		err := w.open()
		if err == nil {
			begin.Do(func() {
				go w.listen()
				say("ready")
			})
			err = w.work()
		}
		w.session.Close()
		// The result of a transaction is unknown if the broker was killed at its end.
		if err == nil || isFenced(err) {
			return err
		}
		fmt.Fprintln(os.Stderr, err)
	}
}

func main() {
	if os.Args[1] == "driver" {
		drive(os.Args[2])
		return
	}
	if os.Args[1] == "matrix" {
		runMatrix(os.Args[2])
		return
	}
	if os.Args[1] == "producers" {
		produceInTransactions(os.Args[2])
		return
	}
	if os.Args[1] == "reader" {
		if err := read(os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6]); err != nil {
			say("failed %v", err)
			os.Exit(1)
		}
		return
	}
	if os.Args[1] == "admin" {
		runAdminSweep(os.Args[2], os.Args[3])
		return
	}
	if os.Args[1] == "secured" {
		secured()
		return
	}
	if err := run(); err != nil {
		word := "failed"
		if isFenced(err) {
			word = "fenced"
		}
		say("%s %v", word, err)
		os.Exit(1)
	}
}
