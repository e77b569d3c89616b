//go:build vulkan && linux

package cuda

import (
	"fmt"
	"reflect"
	"sync"

	"github.com/ebitengine/purego"

	"github.com/lowpack/lowpack/pack"
)

func init() { register(sync.OnceValues(load)) }

// load binds libcuda, which the driver of the GPU installs.
func load() (*driver, error) {
	library, err := purego.Dlopen("libcuda.so.1", purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("%w: CUDA: no driver of an NVIDIA GPU is installed: %w", pack.ErrUnsupported, err)
	}
	d := &driver{}
	v := reflect.ValueOf(d).Elem()
	for i := range v.NumField() {
		name := "cu" + v.Type().Field(i).Tag.Get("cu")
		if _, err := purego.Dlsym(library, name); err != nil {
			return nil, fmt.Errorf("%w: CUDA: the driver is too old; install version 580 or later: %w",
				pack.ErrUnsupported, err)
		}
		purego.RegisterLibFunc(v.Field(i).Addr().Interface(), library, name)
	}
	return d, nil
}
