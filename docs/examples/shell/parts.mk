# make -j4 -f parts.mk CHECKPOINT=… TARGET=… COUNT=8: converts in parts and merges them. What is done is not done again.
COUNT ?= 8
FLAGS ?=
PARTS := $(foreach i,$(shell seq $(COUNT)),$(TARGET).parts/part-$(i))

$(TARGET): $(PARTS)
	lowpack merge $^ -o $@

$(TARGET).parts/part-%: | $(TARGET).parts
	lowpack convert $(CHECKPOINT) --part $*/$(COUNT) --resume $(FLAGS) -o $@

$(TARGET).parts:
	mkdir -p $@
