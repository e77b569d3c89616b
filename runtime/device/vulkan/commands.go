//go:build vulkan

package vulkan

import (
	"fmt"
	"time"

	"github.com/ebitengine/purego"

	"github.com/lowpack/lowpack/runtime/device"
)

// commands are a recorded command buffer with what it refers to.
type commands struct {
	g                   *gpu
	handle              uintptr
	sets                handle // descriptor pool; 0 = none
	info                *submitInfo
	reset, submit, wait []uintptr // arguments, made once
}

var _ device.Commands = (*commands)(nil)

// begin starts a command buffer: it sees what earlier ones and the host have written.
func (g *gpu) begin() (*commands, error) {
	c := &commands{g: g}
	if err := g.do("vkAllocateCommandBuffers", at(&commandsInfo{sType: 40, pool: g.pool, count: 1}),
		at(&c.handle)); err != nil {
		return nil, err
	}
	if err := check("vkBeginCommandBuffer", call(g.function("vkBeginCommandBuffer"), c.handle,
		at(&beginInfo{sType: 42}))); err != nil {
		return nil, err
	}
	c.barrier()
	return c, nil
}

// barrier makes what was written before visible to all that follows.
func (c *commands) barrier() {
	const (
		stages = 0x800 | 0x1000 | 0x4000      // compute shaders, copies, the host
		writes = 0x40 | 0x1000 | 0x4000       // of them
		both   = 0x20 | 0x40 | 0x800 | 0x1000 // reads and writes of shaders and copies
	)
	call(c.g.function("vkCmdPipelineBarrier"), c.handle, stages, stages, 0, 1,
		at(&barrierInfo{sType: 46, src: writes, dst: both | 0x2000}), 0, 0, 0, 0)
}

// end ends recording.
func (c *commands) end() error {
	c.barrier()
	if err := check("vkEndCommandBuffer", call(c.g.function("vkEndCommandBuffer"), c.handle)); err != nil {
		return err
	}
	c.info = &submitInfo{sType: 4, cmdCount: 1, cmds: &c.handle}
	fence := uintptr(at(&c.g.fence)) // c.info and c.g are on the heap, and live as long as c
	c.reset = []uintptr{c.g.handle, 1, fence}
	c.submit = []uintptr{c.g.queue, 1, uintptr(at(c.info)), uintptr(c.g.fence)}
	c.wait = []uintptr{c.g.handle, 1, fence, 1, 0}
	return nil
}

// Run submits and waits.
func (c *commands) Run(limit time.Duration) error {
	g := c.g
	if err := g.planted("vkQueueSubmit"); err != nil {
		return err
	}
	if g.hangs { // its fence is in use
		return fmt.Errorf("%w: the device has not answered what it was asked before", timedOut)
	}
	purego.SyscallN(g.function("vkResetFences"), c.reset...)
	r, _, _ := purego.SyscallN(g.function("vkQueueSubmit"), c.submit...)
	if err := check("vkQueueSubmit", result(int32(r))); err != nil {
		return err
	}
	c.wait[4] = uintptr(limit)
	r, _, _ = purego.SyscallN(g.function("vkWaitForFences"), c.wait...)
	if result(int32(r)) == timedOut {
		g.hangs = true
		return fmt.Errorf("%w: the device has not answered for %v", timedOut, limit)
	}
	return check("vkWaitForFences", result(int32(r)))
}

// Free frees the commands.
func (c *commands) Free() {
	if c.g.hangs {
		return
	}
	if c.sets != 0 {
		call(c.g.function("vkDestroyDescriptorPool"), c.g.handle, c.sets, 0)
	}
	call(c.g.function("vkFreeCommandBuffers"), c.g.handle, c.g.pool, 1, at(&c.handle))
}

// Record records steps.
func (g *gpu) Record(steps []device.Step) (device.Commands, error) {
	c, err := g.begin()
	if err != nil {
		return nil, err
	}
	buffers := 0
	for i := range steps {
		buffers += len(steps[i].Buffers)
	}
	if err := g.do("vkCreateDescriptorPool", at(&setPoolInfo{sType: 33, most: uint32(len(steps)), count: 1,
		sizes: &poolSize{storageBuffer, uint32(buffers)}}), 0, at(&c.sets)); err != nil {
		return nil, err
	}
	for i := range steps {
		if i > 0 && !steps[i].Apart {
			c.barrier()
		}
		l, err := g.launch(&steps[i])
		if err != nil {
			return nil, err
		}
		if err := c.dispatch(&steps[i], l); err != nil {
			return nil, err
		}
	}
	return c, c.end()
}

const storageBuffer = 7

// launch is a pipeline, and how many workgroups of it a step needs.
type launch struct {
	*pipeline
	x, y, z uint32
}

// dispatch records a step.
func (c *commands) dispatch(s *device.Step, l launch) error {
	g, set := c.g, new(handle)
	if err := g.do("vkAllocateDescriptorSets", at(&setAllocateInfo{sType: 34, pool: c.sets, count: 1, sets: &l.set}),
		at(set)); err != nil {
		return err
	}
	bound, writes := make([]boundBuffer, len(s.Buffers)), make([]setWrite, len(s.Buffers))
	for i, b := range s.Buffers {
		bound[i] = boundBuffer{b.Memory.(*memory).buffer, uint64(b.Offset), uint64(b.Bytes)}
		writes[i] = setWrite{sType: 35, set: *set, binding: uint32(i), count: 1, kind: storageBuffer,
			buffers: ptr(&bound[i])}
	}
	const compute = 1
	call(g.function("vkUpdateDescriptorSets"), g.handle, len(writes), at(&writes[0]), 0, 0)
	call(g.function("vkCmdBindPipeline"), c.handle, compute, l.handle)
	call(g.function("vkCmdBindDescriptorSets"), c.handle, compute, l.layout, 0, 1, at(set), 0, 0)
	call(g.function("vkCmdPushConstants"), c.handle, l.layout, computeStage, 0, 4*len(s.Constants), at(&s.Constants[0]))
	call(g.function("vkCmdDispatch"), c.handle, l.x, l.y, l.z)
	return nil
}
