;; fault: none
;; No harm meant: that the parts work.
