//go:build vulkan

package vulkan

//lint:file-ignore U1000 the fields are those of vulkan_core.h

// The structs of vulkan_core.h that a compute backend needs. Go lays them out as C does on 64-bit machines; their first
// field is the VkStructureType.

type applicationInfo struct {
	sType         uint32
	next          ptr
	name          *byte
	version       uint32
	engine        *byte
	engineVersion uint32
	api           uint32
}

type instanceInfo struct {
	sType      uint32
	next       ptr
	flags      uint32
	app        *applicationInfo
	layerCount uint32
	layers     ptr
	extCount   uint32
	exts       ptr
}

type properties struct {
	sType                       uint32
	next                        ptr
	api, driver, vendor, device uint32
	kind                        uint32
	name                        [256]byte
	cache                       [16]byte
	_                           [4]byte
	limits                      [504]byte
	sparse                      [5]uint32
	_                           [4]byte
}

type driverProperties struct {
	sType       uint32
	next        ptr
	id          uint32
	name, info  [256]byte
	conformance [4]byte
}

// dotProperties is VkPhysicalDeviceShaderIntegerDotProductProperties; boolean 4 is that of packed signed bytes.
type dotProperties struct {
	sType    uint32
	next     ptr
	booleans [30]uint32
}

type allocProperties struct {
	sType  uint32
	next   ptr
	maxSet uint32
	size   uint64
}

type memoryProperties struct {
	sType     uint32
	next      ptr
	typeCount uint32
	types     [32]struct{ flags, heap uint32 }
	heapCount uint32
	heaps     [16]struct {
		size  uint64
		flags uint32
		_     uint32
	}
}

type budgetProperties struct {
	sType         uint32
	next          ptr
	budget, usage [16]uint64
}

type queueFamily struct{ flags, count, timestampBits, w, h, d uint32 }

type extension struct {
	name    [256]byte
	version uint32
}

type queueInfo struct {
	sType      uint32
	next       ptr
	flags      uint32
	family     uint32
	count      uint32
	priorities *float32
}

type deviceInfo struct {
	sType      uint32
	next       ptr
	flags      uint32
	queueCount uint32
	queues     *queueInfo
	layerCount uint32
	layers     ptr
	extCount   uint32
	exts       **byte
	features   ptr
}

// boolFeatures are the features of an extension: some booleans, of which a driver reads and writes its own.
type boolFeatures struct {
	sType uint32
	next  ptr
	on    [4]uint32
}

type features struct {
	sType    uint32
	next     ptr
	booleans [55]uint32
}

type subgroupProperties struct {
	sType              uint32
	next               ptr
	size               uint32
	stages, operations uint32
	quads              uint32
}

type subgroupSizeProperties struct {
	sType          uint32
	next           ptr
	min, max       uint32
	mostOfGroup    uint32
	requiredStages uint32
}

type matrixProperties struct {
	sType  uint32
	next   ptr
	stages uint32
}

// matrixKind is VkCooperativeMatrixPropertiesKHR: a product of matrices that a device has.
type matrixKind struct {
	sType           uint32
	next            ptr
	m, n, k         uint32
	a, b, c, result uint32
	saturating      uint32
	scope           uint32
}

// subgroupSizeInfo asks for subgroups of a size.
type subgroupSizeInfo struct {
	sType uint32
	next  ptr
	size  uint32
}

type poolInfo struct {
	sType  uint32
	next   ptr
	flags  uint32
	family uint32
}

type fenceInfo struct {
	sType uint32
	next  ptr
	flags uint32
}

type bufferInfo struct {
	sType       uint32
	next        ptr
	flags       uint32
	size        uint64
	usage       uint32
	sharing     uint32
	familyCount uint32
	families    ptr
}

type memoryRequirements struct {
	size, align uint64
	types       uint32
}

type allocateInfo struct {
	sType uint32
	next  ptr
	size  uint64
	kind  uint32
}

type setBinding struct {
	binding, kind, count, stages uint32
	samplers                     ptr
}

type setLayoutInfo struct {
	sType    uint32
	next     ptr
	flags    uint32
	count    uint32
	bindings *setBinding
}

type pushRange struct{ stages, offset, size uint32 }

type layoutInfo struct {
	sType     uint32
	next      ptr
	flags     uint32
	setCount  uint32
	sets      *handle
	pushCount uint32
	push      *pushRange
}

type moduleInfo struct {
	sType uint32
	next  ptr
	flags uint32
	size  uintptr
	code  *byte
}

type constantEntry struct {
	id, offset uint32
	size       uintptr
}

type constantInfo struct {
	count   uint32
	entries *constantEntry
	size    uintptr
	data    *uint32
}

type stageInfo struct {
	sType     uint32
	next      ptr
	flags     uint32
	stage     uint32
	module    handle
	name      *byte
	constants *constantInfo
}

type pipelineInfo struct {
	sType     uint32
	next      ptr
	flags     uint32
	stage     stageInfo
	layout    handle
	base      handle
	baseIndex int32
}

type poolSize struct{ kind, count uint32 }

type setPoolInfo struct {
	sType uint32
	next  ptr
	flags uint32
	most  uint32
	count uint32
	sizes *poolSize
}

type setAllocateInfo struct {
	sType uint32
	next  ptr
	pool  handle
	count uint32
	sets  *handle
}

type boundBuffer struct {
	buffer         handle
	offset, length uint64
}

type setWrite struct {
	sType                  uint32
	next                   ptr
	set                    handle
	binding, element       uint32
	count, kind            uint32
	image, buffers, texels ptr
}

type commandsInfo struct {
	sType uint32
	next  ptr
	pool  handle
	level uint32
	count uint32
}

type beginInfo struct {
	sType   uint32
	next    ptr
	flags   uint32
	inherit ptr
}

type barrierInfo struct {
	sType    uint32
	next     ptr
	src, dst uint32
}

type submitInfo struct {
	sType     uint32
	next      ptr
	waitCount uint32
	waits     ptr
	stages    ptr
	cmdCount  uint32
	cmds      *uintptr
	sigCount  uint32
	sigs      ptr
}

type copyRegion struct{ src, dst, size uint64 }
