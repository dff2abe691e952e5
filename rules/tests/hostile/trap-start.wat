;; error: trap
;; when: load
(func $die (unreachable))
(start $die)
