package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack"
	"github.com/lowpack/lowpack/cmd/lowpack/internal/registry"
	"github.com/lowpack/lowpack/cmd/lowpack/internal/signing"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/internal/printable"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/runtime/server"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// The defaults of a server.
const (
	defaultPort     = 8080
	defaultParallel = 16
	defaultQueue    = 256
	maxParallel     = 1 << 10
	maxQueue        = 1 << 16
)

func serveCommand() *cli.Command {
	return &cli.Command{
		Name:      "serve",
		Usage:     "serve packed models through an OpenAI-compatible API",
		ArgsUsage: "FILE...|DIR",
		UsageText: "lowpack serve FILE...|DIR [flags]",
		Description: `The same request gets the same bytes, whatever else the server does: batch, order, prefix cache, threads and restarts
change nothing but the time. A request without a seed gets a random one, which the answer names. docs/SERVER.md and
docs/REQUESTS.md list endpoints, fields and errors. FILE may be whatever lowpack run takes.

A request names the model, or none; another name is refused, unless --any-model is set. Several models are loaded at their
first request; when they do not fit into --memory, the least recently used idle model is unloaded.

Of DIR, a folder that is not a checkpoint, all packed files are served, under their names without .safetensors. Files
that are added, replaced by renaming, or removed are noticed at the next request.

With --require-signature each FILE is a packed file with a signature FILE.sig of lowpack sign, which is checked before
the server listens; nothing is converted. Of oci://HOST/NAME in a registry the signature is that of the artifact.

Without --api-key only this machine can send requests. The first SIGTERM or interrupt lets requests that are running
finish, for --drain at most; the exit code is 0 then, and that of the signal if requests were cut off. The second one
ends the process.

  lowpack serve model.safetensors
  lowpack serve small.safetensors large.safetensors
  lowpack serve ~/models --memory 24GB
  lowpack serve model.safetensors --require-signature --key PUBLIC.pem      # model.safetensors.sig
  lowpack serve model.safetensors --host 0.0.0.0 --api-key-file keys.txt --parallel 32`,
		Flags:  serveFlags(),
		Action: runServe,
	}
}

func serveFlags() []cli.Flag {
	return slices.Concat([]cli.Flag{
		&cli.StringFlag{Name: "host", Value: "127.0.0.1",
			Usage: "listen on `ADDRESS`; beyond loopback only with a key"},
		between(0, math.MaxUint16, &cli.IntFlag{Name: "port", Value: defaultPort,
			Usage: "listen on port `N` (0 = any that is free)"}),
		&cli.StringSliceFlag{Name: "api-key", Action: checkKeys,
			Usage: "answer only requests with this `KEY`; may be repeated", EnvVars: []string{"LOWPACK_API_KEY"}},
		inputFlag("api-key-file", "the same for each line of `FILE`"),
		&cli.StringSliceFlag{Name: "model-name",
			Usage:       "serve the model under `NAME`; repeated for several files, in their order",
			DefaultText: "the name of the file"},
		&cli.BoolFlag{Name: "any-model",
			Usage: "accept any model name in requests, instead of answering 404; with one FILE"},
	}, batchingFlags(), []cli.Flag{
		&cli.BoolFlag{Name: "no-prefix-cache", Usage: "compute every prompt from its beginning"},
		between(0, maxQueue, &cli.IntFlag{Name: "queue", Value: defaultQueue,
			Usage: "queue at most `N` requests; further ones get status 429"}),
		&cli.DurationFlag{Name: "itl-target", Value: 200 * time.Millisecond,
			Usage: "read prompts in chunks that keep the time between two tokens of others below `TIME` (0 = in the " +
				"largest chunks)"},
		&cli.StringFlag{Name: memoryName, Action: checkSize(memoryName),
			Usage: "load models that take at most `SIZE` together, such as 12GB, KV caches included; a model that " +
				"takes more alone is refused",
			DefaultText: "what is free at the start; a model that takes more is loaded alone"},
		deviceFlag("compute on this `DEVICE`; the answers stay the same"),
		deviceLayersFlag(),
		input{&cli.StringFlag{Name: "batches", Usage: "offer /v1/files and /v1/batches, whose files stay in `DIR`; " +
			"what is not complete is continued at the next start"}},
		&cli.DurationFlag{Name: "request-timeout", Usage: "abort a request after `TIME` (0 = never)"},
		&cli.DurationFlag{Name: "drain", Value: 30 * time.Second,
			Usage: "finish running requests for at most `TIME` after a signal"},
		&cli.StringSliceFlag{Name: "allowed-host",
			Usage: "answer requests for the host `NAME` too, when listening on loopback; may be repeated"},
		&cli.StringSliceFlag{Name: "cors-origin",
			Usage: "let pages of `ORIGIN` send requests, such as http://localhost:3000 (* = all); may be repeated"},
		numaFlag(),
		threadsFlag("compute"),
		plainHTTPFlag(),
	}, signatureFlags())
}

// memoryName is the flag that bounds what all loaded models take.
const memoryName = "memory"

// memoryLimit returns the size of the flag, which was checked; 0 = it is not given, or the command has none.
func memoryLimit(c *cli.Context) int64 {
	limit, _ := parseSize(c.String(memoryName))
	return limit
}

// batchingFlags size the batches of texts and the KV cache.
func batchingFlags() []cli.Flag {
	return []cli.Flag{
		between(1, maxParallel, &cli.IntFlag{Name: "parallel", Value: defaultParallel,
			Usage: "compute at most `N` texts at once"}),
		between(0, maxTokens, &cli.IntFlag{Name: "context", Usage: "context length: `N` tokens of prompt and text",
			DefaultText: "the model's, at most 4096"}),
		between(0, math.MaxInt32, &cli.IntFlag{Name: "kv-cache-tokens",
			Usage: "size of the KV cache: `N` tokens of all texts together", DefaultText: "half of the free memory"}),
		cacheTypeFlag(),
	}
}

// checkKeys refuses a key that everyone has.
func checkKeys(_ *cli.Context, keys []string) error {
	if slices.Contains(keys, "") {
		return usagef("invalid value \"\" for --api-key: want a text")
	}
	return nil
}

func runServe(c *cli.Context) error {
	if c.NArg() == 0 {
		return wantArgs(c, 1, "FILE")
	}
	o, err := serverOptions(c)
	if err == nil {
		err = checkFolder(c)
	}
	if err != nil {
		return err
	}
	names, err := modelNames(c)
	if err != nil {
		return err
	}
	trust, err := trusted(c)
	if err != nil {
		return err
	}
	if dir := c.Args().First(); isModelFolder(dir) {
		return serveFolder(c, o, dir, trust)
	}
	list, err := hostedModels(c, names, trust)
	defer func() {
		for _, m := range list {
			m.File.Close()
		}
	}()
	if err != nil {
		return err
	}
	return serveModels(c, o, strings.Join(names, ", "), list...)
}

// serveModels listens before it loads a model, and serves until a signal.
func serveModels(c *cli.Context, o server.Options, name string, list ...server.Model) error {
	listener, err := net.Listen("tcp", net.JoinHostPort(c.String("host"), strconv.Itoa(c.Int("port"))))
	if err != nil {
		return err
	}
	defer listener.Close()
	s, err := server.New(o, list...)
	if err != nil && c.NArg() == 1 { // of several files the error names the one
		err = filerr.Named(c.Args().First(), err)
	}
	if err != nil {
		return err
	}
	return listen(c, listener, s, name)
}

// hostedModels opens the files of the command line. After an error it returns those that are open.
func hostedModels(c *cli.Context, names []string, trust *signing.Trust) (list []server.Model, err error) {
	for i, arg := range c.Args().Slice() {
		m, err := hostedModel(c, names[i], arg, trust)
		if err != nil {
			return list, err
		}
		list = append(list, m)
	}
	return list, nil
}

// modelNames returns the names that clients use, one per file.
func modelNames(c *cli.Context) ([]string, error) {
	names := c.StringSlice("model-name")
	if len(names) == 0 {
		for _, arg := range c.Args().Slice() {
			name := strings.TrimSuffix(filepath.Base(arg), ".safetensors")
			if artifact, err := registry.ParseName(arg); err == nil {
				name = artifact.Base()
			}
			names = append(names, name)
		}
	}
	if len(names) != c.NArg() {
		return nil, usagef("--model-name names %d models, but there are %d files", len(names), c.NArg())
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return nil, usagef("two models have the name %q; --model-name gives them others", printable.Line(name))
		}
	}
	return names, nil
}

// hostedModel opens a packed file without loading it; with trust, one that is signed.
func hostedModel(c *cli.Context, name, arg string, trust *signing.Trust) (m server.Model, err error) {
	find := packedOf
	if trust != nil {
		find = packedAt // converts nothing
	}
	path, err := find(c, arg)
	if err != nil {
		return m, err
	}
	return hostedFile(c, name, path, trust)
}

// hostedFile is hostedModel for the path of a packed file.
func hostedFile(c *cli.Context, name, path string, trust *signing.Trust) (m server.Model, err error) {
	if m.File, err = packed.Open(path); err != nil {
		return m, err
	}
	if trust != nil {
		if err := checkOpen(c, trust, path, m.File); err != nil {
			m.File.Close()
			return m, err
		}
	}
	if m.Engine, err = engineOptions(c, m.File.Size()).For(m.File); err != nil {
		m.File.Close()
		return m, filerr.Named(path, err)
	}
	m.ID = name
	m.Load = func() (*tokenizer.Tokenizer, *engine.Engine, error) {
		whole, err := lowpack.OpenFile(m.File, m.Engine)
		if err != nil {
			return nil, nil, filerr.Named(path, err)
		}
		return whole.Tokenizer, whole.Engine, nil
	}
	return m, nil
}

// engineOptions returns the options for a file of some size.
func engineOptions(c *cli.Context, size int64) engine.Options {
	o := engine.Options{Threads: c.Int("threads"), Context: c.Int("context"), Sequences: c.Int("parallel"),
		Cache: engine.CacheType(c.String("kv-cache-type")), CacheTokens: engine.CacheFits, Device: c.String("device"),
		DeviceLayers: c.Int("device-layers"), NUMA: numaMode(c),
		Notice: func(line string) { note(c, line) }}
	if n := c.Int("kv-cache-tokens"); n > 0 {
		o.CacheTokens = n
	}
	if limit := memoryLimit(c); limit > 0 {
		o.Memory = int(max(1, limit-size))
	}
	return o
}

// serverOptions reads the flags, and refuses to let everyone in.
func serverOptions(c *cli.Context) (o server.Options, err error) {
	o = server.Options{
		Keys:        c.StringSlice("api-key"),
		Hosts:       c.StringSlice("allowed-host"),
		Origins:     c.StringSlice("cors-origin"),
		AnyModel:    c.Bool("any-model"),
		Timeout:     c.Duration("request-timeout"),
		Queue:       c.Int("queue"),
		ITLTarget:   c.Duration("itl-target"),
		PrefixCache: !c.Bool("no-prefix-cache"),
		Batches:     c.String("batches"),
		Memory:      int64(engine.AvailableMemory()), Note: func(text string) { note(c, text) },
	}
	if limit := memoryLimit(c); limit > 0 {
		o.Memory, o.MemoryBound = limit, true
	}
	if o.AnyModel && c.NArg() > 1 {
		return o, usagef("--any-model cannot be combined with %d files: which of them would answer?", c.NArg())
	}
	for _, name := range []string{"itl-target", "request-timeout", "drain"} {
		if d := c.Duration(name); d < 0 {
			return o, usagef("invalid --%s %v: must be 0 or more", name, d)
		}
	}
	if path := c.String("api-key-file"); path != "" {
		text, err := readSmall(path, maxWritten)
		if err != nil {
			return o, err
		}
		keys := strings.Fields(string(text))
		if len(keys) == 0 {
			return o, usagef("--api-key-file %s holds no key", path)
		}
		o.Keys = append(o.Keys, keys...)
	}
	o.Loopback = server.IsLoopback(c.String("host"))
	if !o.Loopback && len(o.Keys) == 0 {
		return o, usagef("--host %s lets other machines in; it needs --api-key or --api-key-file", c.String("host"))
	}
	return o, nil
}

// listen serves until a signal. It returns errDrained if every request was answered.
func listen(c *cli.Context, listener net.Listener, s *server.Server, name string) error {
	requests := &running{Handler: s}
	web := &http.Server{
		Handler:           requests,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10, ErrorLog: log.New(c.App.ErrWriter, "lowpack: ", 0),
	}
	note(c, fmt.Sprintf("%s at http://%s/v1, chat at http://%[2]s/", name, listener.Addr()))
	done := make(chan error, 1)
	go func() { done <- web.Serve(listener) }()
	select {
	case err := <-done:
		s.Drain(canceled())
		return err
	case <-c.Context.Done():
	}
	patience := c.Duration("drain")
	extendGrace(c.Context, patience+grace)
	note(c, fmt.Sprintf("finishing requests, for at most %v; a second signal ends them now", patience))
	return finish(c, web, s, requests, time.Now().Add(patience))
}

// finish lets running requests finish until a deadline.
func finish(c *cli.Context, web *http.Server, s *server.Server, requests *running, end time.Time) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var late atomic.Int64
	timer := time.AfterFunc(time.Until(end), func() {
		late.Store(requests.now.Load()) // before they end
		cancel()
	})
	s.Drain(ctx) // requests are answered with 503 meanwhile, also by /health
	timer.Stop()
	cut := late.Load()
	// Finished answers may still be on their way to slow readers.
	ctx, cancel = context.WithTimeout(context.Background(), max(time.Until(end), time.Second))
	defer cancel()
	err := web.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		cut, err = max(cut, requests.now.Load()), nil
	}
	if err = errors.Join(err, web.Close()); err != nil {
		return err
	}
	if cut > 0 {
		note(c, fmt.Sprintf("%s cut off; --drain lets them run for longer", counted(int(cut), "request")))
		return nil // the signal is the error
	}
	return errDrained
}

// running counts the requests that are being answered.
type running struct {
	http.Handler
	now atomic.Int64
}

func (r *running) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.now.Add(1)
	defer r.now.Add(-1)
	r.Handler.ServeHTTP(w, request)
}

// canceled is a context without time.
func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
