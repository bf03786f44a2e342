# SPDX-License-Identifier: Apache-2.0
#
# Draw the output of cohort bench overlap as SVG: gnuplot -c bench/overlap.gnuplot FILE >SVG

set terminal svg size 800,500 font 'sans,12' background 'white'
set xlabel 'backward pass, ms'
set ylabel 'ms'
set xrange [0:*]
set yrange [0:*]
set key outside bottom center
set grid
plot ARG1 using ($1 / 1e3):(($1 + $2) / 1e3) with lines dashtype 2 title 'backward + averaging', \
     '' using ($1 / 1e3):(($1 > $2 ? $1 : $2) / 1e3) with lines dashtype 2 title 'the longer of both', \
     '' using ($1 / 1e3):($3 / 1e3) with linespoints pointtype 7 title 'step'
