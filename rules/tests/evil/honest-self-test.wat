;; fault: none
;; world: self-testing
