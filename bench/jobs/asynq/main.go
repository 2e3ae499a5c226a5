// Command asynq is a peer of `cargo xtask bench jobs`: asynq enqueue|drain URL COUNT CONCURRENCY.
// What is printed, and when it ends, is said in bench/src/redis/peer.rs.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hibiken/asynq"
)

// There is no bulk call, so many goroutines enqueue at the same time.
const producerCount = 100

type noop struct {
	Number  int64  `json:"number"`
	Filling string `json:"filling"`
}

type tally struct {
	wanted     int64
	count, sum atomic.Int64
	once       sync.Once
	wall       time.Time
	cpu        time.Duration
}

func (t *tally) begin() {
	t.once.Do(func() { t.wall, t.cpu = time.Now(), cpuTime() })
}

func (t *tally) add(number int64) {
	t.begin()
	t.sum.Add(number)
	if count := t.count.Add(1); count == t.wanted {
		t.say(count, t.sum.Load())
	}
}

func (t *tally) say(count, sum int64) {
	seconds, cpu := time.Since(t.wall).Seconds(), (cpuTime() - t.cpu).Seconds()
	fmt.Printf("{\"count\":%d,\"sum\":%d,\"seconds\":%g,\"cpu_seconds\":%g}\n", count, sum, seconds, cpu)
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func enqueue(redis asynq.RedisConnOpt, count int64) {
	client := asynq.NewClient(redis)
	defer client.Close()
	filling := strings.Repeat("x", 180)
	t := &tally{wanted: count}
	t.begin()
	var producers sync.WaitGroup
	for first := int64(0); first < producerCount; first++ {
		producers.Add(1)
		go func() {
			defer producers.Done()
			for number := first; number < count; number += producerCount {
				payload, err := json.Marshal(noop{number, filling})
				must(err)
				_, err = client.Enqueue(asynq.NewTask("noop", payload))
				must(err)
			}
		}()
	}
	producers.Wait()
	t.say(count, count*(count-1)/2)
}

func drain(redis asynq.RedisConnOpt, count int64, concurrency int) {
	t := &tally{wanted: count}
	server := asynq.NewServer(redis, asynq.Config{Concurrency: concurrency, LogLevel: asynq.ErrorLevel})
	must(server.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		var job noop
		if err := json.Unmarshal(task.Payload(), &job); err != nil {
			return err
		}
		t.add(job.Number)
		return nil
	})))
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	<-ended
	server.Shutdown()
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	if len(os.Args) != 5 {
		must(fmt.Errorf("usage: asynq enqueue|drain URL COUNT CONCURRENCY"))
	}
	redis, err := asynq.ParseRedisURI(os.Args[2])
	must(err)
	count, err := strconv.ParseInt(os.Args[3], 10, 64)
	must(err)
	concurrency, err := strconv.Atoi(os.Args[4])
	must(err)
	if os.Args[1] == "enqueue" {
		enqueue(redis, count)
	} else {
		drain(redis, count, concurrency)
	}
}
