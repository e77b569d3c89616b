package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// orderly lists the packages, with their subpackages, that turn a request into the answer of a server.
var orderly = []string{"runtime", "formats/sampling", "internal/jinja", "internal/jsonread", "internal/marked"}

// disorder are the places in them that depend on the order of a map, on a clock or on chance, each with the reason why
// no answer does.
var disorder = []struct{ place, what, reason string }{
	{"internal/jinja.Template.Render", "a loop over a map",
		"fills a map from a map"},
	{"runtime/chat.Template.Render", "time.Now",
		"the clock of a caller who brings none; the server does"},
	{"runtime/chat.newConversation", "a loop over a map",
		"sets variables, which have no order and different names"},
	{"runtime/device.Pass.submit", "time.Now, time.Since",
		"measures what a layer takes, by which passes are cut into pieces: these change the time only"},
	{"runtime/device/cuda.commands.Run", "time.Now, time.Since, time.Sleep",
		"waits for a GPU, up to a limit: behind it there is an error"},
	{"runtime/engine.Engine.forward", "time.Now, time.Since",
		"measures what a pass costs, by which guesses are made: they change the time only (TestSpeculate)"},
	{"runtime/engine.Generation.run", "time.Now, time.Since, time.Now, time.Since",
		"measures a result for its statistics"},
	{"runtime/server.New", "time.Now",
		"when the server was started, which lists of models tell"},
	{"runtime/server.batchQueue.answer", "a choice of whatever is ready, time.After",
		"when a request of a batch that found no room is tried again"},
	{"runtime/server.batchQueue.loop", "a choice of whatever is ready",
		"waits for a batch"},
	{"runtime/server.batchQueue.wait", "a choice of whatever is ready",
		"waits after a folder could not be written"},
	{"runtime/server.readMetadata", "a loop over a map",
		"checks every entry, with one error for all"},
	{"runtime/server.Server.guard", "a loop over a map",
		"registers paths, one by one; methods keep the order of the routes"},
	{"runtime/server.Server.limited", "context.WithTimeout",
		"the limit of --request-timeout: behind it there is an error"},
	{"runtime/server.models.await", "a choice of whatever is ready",
		"a client that leaves gets no answer"},
	{"runtime/server.models.load", "time.Now, time.Since",
		"notes how long a model took to load"},
	{"runtime/server.models.wait", "a choice of whatever is ready",
		"a client that leaves gets no answer"},
	{"runtime/server.next", "context.WithTimeout",
		"when a quiet stream gets a comment"},
	{"runtime/server.settings.adjust", "a loop over a map",
		"changes the logit of each token that the text has, once and by itself"},
	{"runtime/server/batch.Options.answer", "a choice of whatever is ready",
		"the answers that a stopped batch has; each is the same whenever it ends"},
	{"runtime/server/batch.feed.hand", "a choice of whatever is ready",
		"a batch that is interrupted has no results"},
	{"runtime/server/internal/api.Body.readTime", "time.Now",
		"the time of a request without one, which the answer names where its prompt tells it"},
	{"runtime/server/internal/api.LimitWrite", "time.Now",
		"the time that a client has to read"},
	{"runtime/server/internal/api.Origin.Created", "time.Now",
		"created, which docs/SERVER.md exempts"},
	{"runtime/server/internal/api.Origin.ID", "crypto/rand.Read",
		"ids, which docs/SERVER.md exempts"},
	{"runtime/server/internal/api.Origin.Seed", "math/rand/v2.Uint64",
		"the seed of a request without one, which the answer names"},
	{"runtime/server/internal/api.Pool.turn", "a choice of whatever is ready",
		"a client that leaves gets no answer"},
	{"runtime/server/internal/prefix.Cache.Evict", "a loop over a map",
		"looks for the least number; texts with the same one belong to one salt"},
	{"runtime/server/schedule.Call.Next", "a choice of whatever is ready",
		"a client that leaves gets no answer"},
	{"runtime/server/schedule.Scheduler.Drain", "a choice of whatever is ready",
		"waits for the end of requests or of patience"},
	{"runtime/server/schedule.Scheduler.end", "time.Now",
		"the timing of a request, for metrics and Retry-After"},
	{"runtime/server/schedule.Scheduler.handOut", "time.Now",
		"the time between tokens, for metrics"},
	{"runtime/server/schedule.Scheduler.newTask", "time.Now",
		"the timing of a request, for metrics"},
	{"runtime/server/schedule.Scheduler.prefilled", "time.Now",
		"the timing of a request, for metrics"},
	{"runtime/server/schedule.Scheduler.rest", "time.NewTimer, a choice of whatever is ready",
		"when an idle server gives memory back"},
	{"runtime/server/schedule.Scheduler.start", "time.Now",
		"the timing of a request, for metrics"},
	{"runtime/server/schedule.Scheduler.step", "time.Now, time.Since",
		"measures a pass, by which prompts are cut into chunks: logits have the same bits in every batch (TestLoad)"},
	{"runtime/tokenizer.config.read", "a loop over a map",
		"fills fields, each from a key of its own"},
	{"runtime/tokenizer.newMerges", "math/rand/v2.Uint64",
		"the salt of a hash table: where a rule lies, not what it says"},
	{"runtime/tokenizer.newVocab", "math/rand/v2.Uint64, math/rand/v2.Uint64",
		"the salt of a hash table: where a token lies, not which it is"},
	{"runtime/tokenizer.newWorkspace", "hash/maphash.MakeSeed",
		"the seed of a cache, whose words are compared as a whole"},
	{"runtime/tokenizer.vocab.index", "a loop over a map",
		"makes a set"},
	{"runtime/tokenizer.workspace.cached", "hash/maphash.String",
		"the place of a word in a cache, whose words are compared as a whole"},
}

// TestOrder: what a server answers depends on neither the order of a map, nor the time, nor chance: whatever does has
// its reason in disorder, each time.
func TestOrder(t *testing.T) {
	files := token.NewFileSet()
	all, imp := built(t, files)
	found, at := map[string][]string{}, map[string]token.Pos{}
	for _, p := range all {
		name, ours := strings.CutPrefix(p.path, module)
		if !ours || !below(name, orderly) {
			continue
		}
		for _, d := range disorders(t, p.path, files, p.parse(t, files), imp) {
			found[d.place], at[d.place] = append(found[d.place], d.what), d.pos
		}
	}
	for _, known := range disorder {
		if got := strings.Join(found[known.place], ", "); got != known.what || known.reason == "" {
			t.Errorf("%s has %q, not %q", known.place, got, known.what)
		}
		delete(found, known.place)
	}
	for place, what := range found {
		t.Errorf("%s: %s in %s: sort it, or say in disorder why no answer depends on it",
			files.Position(at[place]), what, place)
	}
}

// built lists the packages of the module and what they import, which an importer reads.
func built(t *testing.T, files *token.FileSet) ([]builtPackage, types.Importer) {
	t.Helper()
	all, imp, err := load("../..", files)
	if err != nil {
		t.Fatal(err)
	}
	return all, imp
}

// parse reads the files.
func (p *builtPackage) parse(t *testing.T, files *token.FileSet) (sources []*ast.File) {
	t.Helper()
	for _, name := range p.names {
		source, err := parser.ParseFile(files, filepath.Join(p.dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, source)
	}
	return sources
}

// aDisorder is a use of something whose value differs from run to run.
type aDisorder struct {
	place, what string // the function that it stands in
	pos         token.Pos
}

// chances are the functions of other packages whose results, or whose moment, differ from run to run.
var chances = map[string][]string{
	"time":         {"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep"},
	"context":      {"WithTimeout", "WithDeadline", "WithTimeoutCause", "WithDeadlineCause"},
	"maps":         {"All", "Keys", "Values"},
	"math/rand":    nil, // all of them
	"math/rand/v2": nil,
	"crypto/rand":  nil,
	"hash/maphash": nil,
}

// sorting are functions that take the contents of a map in any order, and return them sorted.
var sorting = []string{"slices.Sorted", "slices.SortedFunc"}

// disorders type checks a package and lists where its results could differ from run to run.
func disorders(t *testing.T, path string, files *token.FileSet, sources []*ast.File, imp types.Importer) []aDisorder {
	t.Helper()
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	w := &disorderWalk{info: info, sorted: map[ast.Node]bool{}}
	c := types.Config{Importer: imp}
	if _, err := c.Check(path, files, sources, w.info); err != nil {
		t.Fatal(err)
	}
	for _, source := range sources {
		for _, d := range source.Decls {
			place := strings.TrimPrefix(path, module) + "." + nameOf(d)
			ast.Inspect(d, func(n ast.Node) bool {
				if what := w.look(n); what != "" {
					w.found = append(w.found, aDisorder{place, what, n.Pos()})
				}
				return true
			})
		}
	}
	return w.found
}

// disorderWalk goes through the source of a package.
type disorderWalk struct {
	info   *types.Info
	sorted map[ast.Node]bool // functions whose results are sorted at once
	found  []aDisorder
}

// look says what of a node differs from run to run; "" = nothing.
func (w *disorderWalk) look(n ast.Node) string {
	switch n := n.(type) {
	case *ast.RangeStmt:
		return rangeOver(w.info.Types[n.X].Type)
	case *ast.SelectStmt:
		if len(n.Body.List) > 1 && !polls(n) {
			return "a choice of whatever is ready"
		}
	case *ast.CallExpr:
		if f := w.callee(n.Fun); f == nil || !slices.Contains(sorting, f.FullName()) {
			break
		}
		for _, arg := range n.Args {
			if call, ok := arg.(*ast.CallExpr); ok {
				w.sorted[unindexed(call.Fun)] = true
			}
		}
	case *ast.SelectorExpr:
		if f, ok := w.info.Uses[n.Sel].(*types.Func); ok && !w.sorted[n] && chance(f) {
			return f.FullName()
		}
	}
	return ""
}

// nameOf is the name of a function, with its receiver, or of the first that a declaration declares.
func nameOf(d ast.Decl) string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return d.Name.Name
		}
		return strings.TrimPrefix(types.ExprString(d.Recv.List[0].Type), "*") + "." + d.Name.Name
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if v, ok := s.(*ast.ValueSpec); ok {
				return v.Names[0].Name
			}
		}
	}
	return fmt.Sprintf("%T", d)
}

// rangeOver says whether a loop over a type has no order of its own.
func rangeOver(t types.Type) string {
	if t == nil {
		return ""
	}
	if p, ok := t.(*types.TypeParam); ok {
		t = p.Constraint()
	}
	switch u := t.Underlying().(type) {
	case *types.Map:
		return "a loop over a map"
	case *types.Interface: // of a type parameter
		for e := range u.EmbeddedTypes() {
			if union, ok := e.(*types.Union); ok {
				for term := range union.Terms() {
					if what := rangeOver(term.Type()); what != "" {
						return what
					}
				}
			}
		}
	}
	return ""
}

// polls says whether a select looks at one channel without waiting.
func polls(s *ast.SelectStmt) bool {
	empty := func(c ast.Stmt) bool { return c.(*ast.CommClause).Comm == nil }
	return len(s.Body.List) == 2 && slices.ContainsFunc(s.Body.List, empty)
}

// callee is the function that is called; nil = none that is known by a name.
func (w *disorderWalk) callee(fun ast.Expr) *types.Func {
	var named types.Object
	switch f := unindexed(fun).(type) {
	case *ast.SelectorExpr:
		named = w.info.Uses[f.Sel]
	case *ast.Ident:
		named = w.info.Uses[f]
	}
	f, _ := named.(*types.Func)
	return f
}

// unindexed is a function without its type arguments.
func unindexed(fun ast.Expr) ast.Expr {
	switch f := ast.Unparen(fun).(type) {
	case *ast.IndexExpr:
		return f.X
	case *ast.IndexListExpr:
		return f.X
	default:
		return f
	}
}

// chance says whether results of a function differ from run to run. Generators with a seed are made by New… functions.
func chance(f *types.Func) bool {
	if f.Pkg() == nil {
		return false
	}
	switch f.FullName() {
	case "(*sync.Map).Range", "(reflect.Value).MapRange", "(reflect.Value).MapKeys":
		return true
	}
	if f.Signature().Recv() != nil {
		return false
	}
	names, known := chances[f.Pkg().Path()]
	return known && (slices.Contains(names, f.Name()) || names == nil && !strings.HasPrefix(f.Name(), "New"))
}

// TestDisorders: what depends on chance is found, whatever it is called, and what is sorted or has a seed is not.
func TestDisorders(t *testing.T) {
	source := `package p
import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"
	clock "time"
)
type table map[string]int
func Loop(m table) { for range m {} }
func Generic[M ~map[K]V, K comparable, V any](m M) { for range m {} }
func Keys(m table) { for range maps.Keys(m) {} }
func Collected(m table) []string { return slices.Collect(maps.Keys(m)) }
func (t *table) Method() { for range *t {} }
func Now() time.Time { return clock.Now() }
func Value() func() time.Time { return time.Now }
func Chance() int { return rand.IntN(3) }
func Either(a, b chan int) { select { case <-a: case <-b: } }
var variable = time.Now()
func Sorted(m table) { for range slices.Sorted(maps.Keys(m)) {} }
func List(m []int) { for range m {} }
func Poll(a chan int) { select { case <-a: default: } }
func Seeded() int { return rand.New(rand.NewPCG(1, 2)).IntN(3) }
func Date() time.Time { return time.Unix(0, 0) }
`
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "p.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	_, imp := built(t, files)
	var got []string
	for _, d := range disorders(t, module+"p", files, []*ast.File{file}, imp) {
		got = append(got, strings.TrimPrefix(d.place, "p."))
	}
	want := []string{
		"Loop", "Generic", "Keys", "Collected", "table.Method", "Now", "Value", "Chance", "Either", "variable",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
