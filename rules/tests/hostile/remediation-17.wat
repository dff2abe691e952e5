;; error: invalid
;; message: recommendations[0].remediation has 17 items, expected 0 to 16
;; The same parameter 17 times: ("mig", "mig") at 4096.
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (local $i i32)
  (drop (call $recommendation))
  (i32.store (i32.const 2148) (i32.const 1))
  (i32.store (i32.const 2152) (i32.const 336))
  (i32.store (i32.const 2156) (i32.const 3))
  (i32.store (i32.const 2160) (i32.const 4096))
  (i32.store (i32.const 2164) (i32.const 17))
  (loop $again
    (i32.store (i32.add (i32.const 4096) (i32.mul (local.get $i) (i32.const 8))) (i32.const 336))
    (i32.store (i32.add (i32.const 4100) (i32.mul (local.get $i) (i32.const 8))) (i32.const 3))
    (local.set $i (i32.add (local.get $i) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $i) (i32.const 34))))
  (i32.const 1792))
