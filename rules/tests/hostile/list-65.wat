;; error: invalid
;; message: recommendations has 65 items, expected 0 to 64
;; The same recommendation 65 times.
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (local $i i32)
  (drop (call $recommendation))
  (i32.store (i32.const 1800) (i32.const 65))
  (loop $again
    (memory.copy
      (i32.add (i32.const 2048) (i32.mul (local.get $i) (i32.const 120)))
      (i32.const 2048) (i32.const 120))
    (local.set $i (i32.add (local.get $i) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $i) (i32.const 65))))
  (i32.const 1792))
