;; Two pages. The first holds constants; the allocator bumps from the second on.
(memory (export "memory") 2)
(global $heap (mut i32) (i32.const 65536))
(func $alloc (export "cabi_realloc")
  (param $old i32) (param $old-size i32) (param $align i32) (param $size i32) (result i32)
  (local $at i32)
  (local.set $at
    (i32.and
      (i32.add (global.get $heap) (i32.sub (local.get $align) (i32.const 1)))
      (i32.sub (i32.const 0) (local.get $align))))
  (global.set $heap (i32.add (local.get $at) (local.get $size)))
  (if (i32.gt_u (global.get $heap) (i32.mul (memory.size) (i32.const 65536)))
    (then
      (drop (memory.grow
        (i32.shr_u (i32.add (local.get $size) (i32.const 65535)) (i32.const 16))))))
  (local.get $at))
