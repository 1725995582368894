#pragma once
#define MINE 1
