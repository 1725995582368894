module btc/tools/collector

go 1.26
